// Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 as questions that a loop can ask between its steps.
#pragma once

namespace prenorm::cli {

// While it lives, the first SIGINT, SIGTERM or SIGHUP is only remembered; the second ends the
// process at once with its exit code. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool requested() const;
  // 128 and the signal: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP; 0 before any.
  int exit_code() const;
};

// Whether a signal that an InterruptGuard remembers has come.
bool asked_to_end();

// While it lives, SIGUSR1 asks for a save. One at a time.
class SaveSignal {
 public:
  SaveSignal();
  ~SaveSignal();
  SaveSignal(const SaveSignal&) = delete;
  SaveSignal& operator=(const SaveSignal&) = delete;

  // Whether there was one since this was asked last.
  bool take();
};

// At the program's start: a closed pipe and a file size limit become errors of the write instead of
// killing the process, a mapped file that is shortened ends it with a line that says so, and
// standard streams that are closed are opened on /dev/null, so that no file of ours takes their
// number.
void prepare_process();

}  // namespace prenorm::cli
