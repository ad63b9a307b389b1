#include "prenorm/study/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "prenorm/model/checkpoint.h"
#include "prenorm/study/kernel_pass.h"
#include "tests/study/check_fixture.h"

namespace prenorm {
namespace {

TEST(Check, all_properties_are_measured_in_order_with_their_scope) {
  const Runtime run({.threads = 1});
  const auto model = random_model(small_config());
  std::vector<std::string> stages;
  CheckOptions options;
  options.on_stage = [&](std::string_view stage) { stages.emplace_back(stage); };
  const auto found = check_model(run, *model, options);
  std::vector<std::string> names;
  for (const Property& p : found) {
    names.push_back(p.name);
    EXPECT_FALSE(p.claim.empty());
    EXPECT_FALSE(p.measure.empty());
    EXPECT_FALSE(p.scope.empty());
  }
  EXPECT_THAT(names, testing::ElementsAre("causality", "batch", "cache", "threads", "identity",
                                          "gradients", "norm-mean", "norm-variance",
                                          "model-gradients", "gradient-threads"));
  EXPECT_TRUE(all_passed(found));
  EXPECT_THAT(stages, testing::Contains("block 2 of 2"));
}

TEST(Check, one_property_that_fails_is_enough) {
  const Runtime run({.threads = 1});
  const auto model = random_model(small_config());
  CheckOptions options;
  options.seams.layer = [](const Runtime& r, const LayerPass& pass) {
    LayerOutcome out = kernel_pass(r, pass);
    out.output[0] += 1e-3;
    return out;
  };
  EXPECT_FALSE(all_passed(check_model(run, *model, options)));
}

TEST(Check, a_trained_model_of_another_program_has_the_properties) {
  const std::filesystem::path folder =
      std::filesystem::path(PRENORM_SOURCE_DIR) / "../shared/data/gpt-nano-sort";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const Runtime run({.threads = 2});
  const auto model = load_pretrained(folder, Gpt::Mode::kInference);
  EXPECT_THAT(failures(check_model(run, *model)), testing::IsEmpty());
}

}  // namespace
}  // namespace prenorm
