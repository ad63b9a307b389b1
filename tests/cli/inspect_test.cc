#include "prenorm/cli/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;

using InspectVerb = RunFixture;

TEST_F(InspectVerb, inspect_shows_tensors_parameters_memory_and_arithmetic) {
  const Ran ran = run({"inspect", "run"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("transformer.wte.weight"));
  EXPECT_THAT(ran.out, HasSubstr("FLOP"));
  const auto result = json({"inspect", "run", "--json"});
  // wte, wpe; a block of 12 C² and two norms; the last norm; the tied head counts once.
  EXPECT_EQ(result["parameters"], 256 * 16 + 16 * 16 + 12 * 16 * 16 + 3 * 16);
  EXPECT_EQ(result["tokenizer"], "byte");
  EXPECT_TRUE(result["warnings"].empty());
  EXPECT_EQ(run({"inspect", "run/model.safetensors"}).code, 0);
}

TEST_F(InspectVerb, weights_that_are_no_numbers_are_a_warning_of_inspect_and_stop_the_others) {
  damage_weights();
  const Ran inspected = run({"inspect", "run"});
  EXPECT_EQ(inspected.code, 0);
  EXPECT_THAT(inspected.err, HasSubstr("warning: "));
  EXPECT_THAT(inspected.err, HasSubstr("NaN"));
  expect_error(run({"generate", "-m", "run", "-p", "a"}), 4, "run: expected finite weights");
  expect_error(run({"eval", "-m", "run", "text.txt"}), 4, "run: expected finite weights");
}

TEST_F(InspectVerb,
       inspect_fails_where_config_and_tensors_disagree_and_warns_of_a_broken_tokenizer) {
  spill(scratch_ / "run/tokenizer.json", "{");
  const Ran warned = run({"inspect", "run"});
  EXPECT_EQ(warned.code, 0);
  EXPECT_THAT(warned.err, HasSubstr("warning: run/tokenizer.json"));
  auto config = nlohmann::json::parse(slurp(scratch_ / "run/config.json"));
  config["n_layer"] = 2;
  spill(scratch_ / "run/config.json", config.dump());
  const Ran ran = run({"inspect", "run"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("h.1."));
}

}  // namespace
}  // namespace prenorm::cli
