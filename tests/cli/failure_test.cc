#include "prenorm/cli/failure.h"

#include <gtest/gtest.h>

#include <new>
#include <system_error>

#include "prenorm/base/error.h"
#include "prenorm/cli/output.h"
#include "prenorm/cli/verb.h"

namespace prenorm::cli {
namespace {

template <typename Error>
Failure of(const Error& error) {
  try {
    throw error;
  } catch (...) {
    return current_failure();
  }
}

TEST(Failure, each_kind_of_error_has_its_exit_code) {
  EXPECT_EQ(of(ConfigError("a")).code, kUsage);
  EXPECT_EQ(of(UnsupportedCpu("a")).code, kUsage);
  EXPECT_EQ(of(NumericalError("a")).code, kNumerical);
  EXPECT_EQ(of(IoError("a")).code, kBadInput);
  EXPECT_EQ(of(FormatError("a")).code, kBadInput);
  EXPECT_EQ(of(std::bad_alloc()).code, kBadInput);
  EXPECT_EQ(of(std::system_error(std::make_error_code(std::errc::timed_out))).code, kBadInput);
  EXPECT_EQ(of(std::logic_error("a")).code, kBadInput);
  EXPECT_EQ(of(3).code, kBadInput);
}

TEST(Failure, says_what_the_error_says_and_nothing_where_nobody_reads) {
  EXPECT_EQ(of(IoError("x: expected a file, found none")).message,
            "x: expected a file, found none");
  EXPECT_EQ(of(std::logic_error("odd")).message, "internal error: odd");
  EXPECT_EQ(of(OutputClosed()).code, kDone);
  EXPECT_EQ(of(OutputClosed()).message, "");
}

}  // namespace
}  // namespace prenorm::cli
