// The prenorm program. Everything is in run_program(); this file only meets the operating system.
#include <unistd.h>

#include "prenorm/cli/interrupt.h"
#include "prenorm/cli/program.h"

int main(int argc, char** argv) {
  using namespace prenorm::cli;
  prepare_process();
  Output out(STDOUT_FILENO, "standard output", Output::OnFailure::kThrow);
  Output log(STDERR_FILENO, "standard error", Output::OnFailure::kIgnore);
  return run_program({argv + (argc > 0 ? 1 : 0), argv + argc}, program_environment(environ),
                     {out, log});
}
