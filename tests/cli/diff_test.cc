#include "prenorm/cli/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;
using DiffVerb = RunFixture;

TEST_F(DiffVerb, the_exit_code_tells_whether_two_checkpoints_differ) {
  EXPECT_EQ(run({"convert", "run", "--out-dir", "half", "--dtype", "bf16"}).code, 0);
  const Ran same = run({"diff", "run", "run"});
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.out, HasSubstr("same: "));
  const Ran other = run({"diff", "run", "half", "--tolerance", "1e-6"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, HasSubstr("wte.weight: dtype F32 and BF16"));
  const auto result = nlohmann::json::parse(run({"diff", "run", "half", "--json"}).out);
  EXPECT_FALSE(result["same"]);
  EXPECT_EQ(result["tensors"].back()["name"], "wte.weight");
  EXPECT_GT(result["tensors"].back()["differing"], 0);  // the biases, all zeros, come first
}

TEST_F(DiffVerb, nan_is_told_and_one_path_is_too_few) {
  EXPECT_EQ(run({"convert", "run", "--out-dir", "good"}).code, 0);
  damage_weights();
  const Ran ran = run({"diff", "good", "run"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("0 and 1 NaN"));
  EXPECT_THAT(ran.err, HasSubstr("holds 0 NaN in the first and 1 in the second"));
  const Ran same = run({"diff", "run", "run"});
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_THAT(same.err, HasSubstr("warning: '"));
  expect_error(run({"diff", "run"}), 2, "-m: expected two model folders or files");
  expect_error(run({"diff", "run", "none"}), 3, "none");
}

}  // namespace
}  // namespace prenorm::cli
