#include "prenorm/cli/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;
using FingerprintVerb = RunFixture;

TEST_F(FingerprintVerb, finds_this_machine_as_recorded) {
  const auto ran = run({"fingerprint", "--threads", "2"});
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("2 threads\n"));
  EXPECT_THAT(ran.out, HasSubstr("as recorded.\n"));
  EXPECT_THAT(ran.out, HasSubstr("training of 100 steps"));
}

TEST_F(FingerprintVerb, prints_json_and_the_record) {
  const auto ran = run({"fingerprint", "--isa", "auto", "--json"});
  EXPECT_THAT(ran.out, HasSubstr(R"("differs":null)"));
  EXPECT_THAT(run({"fingerprint", "--record"}).out, HasSubstr("Fingerprint{\"matmul\", 0x"));
}

TEST_F(FingerprintVerb, names_an_unknown_instruction_set) {
  expect_error(run({"fingerprint", "--isa", "sse"}), 2, "isa: expected auto or one of");
}

}  // namespace
}  // namespace prenorm::cli
