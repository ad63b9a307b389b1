// An exception as the program's exit code and error line.
#pragma once
#include <string>

namespace prenorm::cli {

struct Failure {
  int code = 0;
  std::string message;  // empty: nothing is to be said
};

// Of the exception that is being handled. Call within a catch.
Failure current_failure() noexcept;

}  // namespace prenorm::cli
