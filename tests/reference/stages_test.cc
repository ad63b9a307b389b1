#include "prenorm/reference/stages.h"

#include <gtest/gtest.h>

namespace prenorm::reference {
namespace {

TEST(Stages, the_last_result_of_a_module_is_kept) {
  Stages<double> stages;
  const Recorder<double> record(&stages, "transformer.");
  record("ln_f", Tensor<double>({1}, std::vector<double>{1.0}));
  record("h", Tensor<double>({1}, std::vector<double>{2.0}));
  record("ln_f", Tensor<double>({1}, std::vector<double>{3.0}));
  ASSERT_NE(stages.find("transformer.ln_f"), nullptr);
  EXPECT_EQ((*stages.find("transformer.ln_f"))[0], 3.0);
  EXPECT_EQ(stages.entries().front().first, "transformer.h");
  EXPECT_EQ(stages.find("ln_f"), nullptr);
}

TEST(Stages, names_are_joined_on_the_way_down) {
  Stages<double> stages;
  Recorder<double>(&stages).under("transformer.").under("h.0.")("ln_1", Tensor<double>({2}));
  EXPECT_NE(stages.find("transformer.h.0.ln_1"), nullptr);
}

TEST(Stages, a_recorder_without_stages_hands_the_value_on) {
  const Tensor<double> x({2}, {1.0, 2.0});
  EXPECT_EQ(Recorder<double>()("x", x), x);
}

}  // namespace
}  // namespace prenorm::reference
