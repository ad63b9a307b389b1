#include "prenorm/cli/convert.h"

#include <gtest/gtest.h>

#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using ConvertVerb = RunFixture;

TEST_F(ConvertVerb, a_run_goes_to_nanogpt_and_back_and_generates_the_same) {
  EXPECT_EQ(run({"convert", "run", "--out-dir", "nano", "--layout", "nanogpt"}).code, 0);
  EXPECT_EQ(run({"convert", "nano/ckpt.pt", "--out-dir", "back"}).code, 0);
  EXPECT_EQ(slurp(scratch_ / "back/model.safetensors"), slurp(scratch_ / "run/model.safetensors"));
  const Ran ran = run({"generate", "-m", "back", "-p", "the", "-n", "5", "--temp", "0"});
  EXPECT_EQ(ran.out, run({"generate", "-m", "run", "-p", "the", "-n", "5", "--temp", "0"}).out);
}

TEST_F(ConvertVerb, what_is_missing_is_named) {
  expect_error(run({"convert", "run"}), 2, "--out-dir: expected a folder");
  expect_error(run({"convert", "--out-dir", "x"}), 2, "-m: expected one model folder or file");
  expect_error(run({"convert", "none.pt", "--out-dir", "x"}), 3, "none.pt");
  expect_error(run({"convert", "run/model.safetensors", "--out-dir", "x"}), 2, "--n-head");
}

}  // namespace
}  // namespace prenorm::cli
