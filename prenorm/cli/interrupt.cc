#include "prenorm/cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace prenorm::cli {
namespace {

// Signal handlers reach only globals.
volatile std::sig_atomic_t received_signal = 0, save_wanted = 0;
struct sigaction previous_interrupt, previous_terminate, previous_user;

int exit_code_of(int signal) { return 128 + signal; }

extern "C" void remember_signal(int signal) {
  if (received_signal != 0) _exit(exit_code_of(signal));
  received_signal = signal;
}

extern "C" void remember_save(int) { save_wanted = 1; }

void listen(int signal, void (*handler)(int), struct sigaction& previous) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, &previous);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received_signal = 0;
  listen(SIGINT, remember_signal, previous_interrupt);
  listen(SIGTERM, remember_signal, previous_terminate);
  // Ignored by whoever started us (nohup, a background job of a script): stays ignored.
  if (previous_interrupt.sa_handler == SIG_IGN) sigaction(SIGINT, &previous_interrupt, nullptr);
  if (previous_terminate.sa_handler == SIG_IGN) sigaction(SIGTERM, &previous_terminate, nullptr);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_interrupt, nullptr);
  sigaction(SIGTERM, &previous_terminate, nullptr);
}

bool InterruptGuard::requested() const { return received_signal != 0; }

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
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) == -1) {
      // The lowest free number is this one: those below are open.
      const int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY);
      static_cast<void>(opened);
    }
  }
}

}  // namespace prenorm::cli
