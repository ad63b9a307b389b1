#include "prenorm/cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <initializer_list>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {
namespace {

// Signal handlers reach only globals.
volatile std::sig_atomic_t received_signal = 0, save_wanted = 0;
std::atomic_flag shorter_file_told;
constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kEnding.size()> previous_ending;
struct sigaction previous_user;

int exit_code_of(int signal) { return 128 + signal; }

extern "C" void remember_signal(int signal) {
  if (received_signal != 0) _exit(exit_code_of(signal));
  received_signal = signal;
}

extern "C" void remember_save(int) { save_wanted = 1; }

// A file that is mapped became shorter; nothing that it held can be used any more.
extern "C" void tell_of_shorter_file(int) {
  constexpr char kLine[] =
      "prenorm: a file that is in use: expected its size to stay, found it shorter\n";
  while (shorter_file_told.test_and_set()) pause();  // by another thread, which ends us all
  const ssize_t written = write(STDERR_FILENO, kLine, sizeof kLine - 1);
  static_cast<void>(written);
  _exit(kBadInput);
}

void listen(int signal, void (*handler)(int), struct sigaction& previous) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, &previous);
}

void restore(std::size_t ending) { sigaction(kEnding[ending], &previous_ending[ending], nullptr); }

}  // namespace

InterruptGuard::InterruptGuard() {
  received_signal = 0;
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    listen(kEnding[i], remember_signal, previous_ending[i]);
    // Ignored by whoever started us (nohup, a background job of a script): stays ignored.
    if (previous_ending[i].sa_handler == SIG_IGN) restore(i);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kEnding.size(); ++i) restore(i);
}

bool asked_to_end() { return received_signal != 0; }

bool InterruptGuard::requested() const { return asked_to_end(); }

int InterruptGuard::exit_code() const {
  return received_signal == 0 ? 0 : exit_code_of(received_signal);
}

SaveSignal::SaveSignal() {
  save_wanted = 0;
  listen(SIGUSR1, remember_save, previous_user);
}

SaveSignal::~SaveSignal() { sigaction(SIGUSR1, &previous_user, nullptr); }

bool SaveSignal::take() {
  if (save_wanted == 0) return false;
  save_wanted = 0;
  return true;
}

void prepare_process() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGBUS, tell_of_shorter_file);
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) == -1) {
      // The lowest free number is this one: those below are open.
      const int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY);
      static_cast<void>(opened);
    }
  }
}

}  // namespace prenorm::cli
