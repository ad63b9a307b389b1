#include "prenorm/study/diagnose_hypotheses.h"

#include <set>

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

std::set<std::string> names(const Mistakes& choices) {
  std::set<std::string> out;
  for (const MistakeChoice& c : choices) out.insert(c.name);
  return out;
}

TEST(Hypotheses, hold_every_mistake_of_the_table_that_can_be_made) {
  const DiagnoseModel model = small_diagnose_model({.tied = false});
  std::set<std::string> all = names(choices_everywhere(model, 10));
  for (const reference::Mistake& mistake : reference::mistakes()) {
    const std::string name(mistake.name);
    // The configuration's own activation; a whole run's type, and a head that nobody knows, are
    // told from the dump.
    const bool told = name == "activation.gelu-tanh" || name == "numbers.bf16" ||
                      name == "numbers.f16" || name == "weights.untied-head";
    EXPECT_EQ(all.contains(name), !told) << name;
  }
}

TEST(Hypotheses, each_changes_the_options_and_no_two_alike) {
  const DiagnoseModel model = small_diagnose_model({.tied = false});
  std::set<std::vector<double>> seen{fingerprint(model.options())};
  for (const MistakeChoice& choice : choices_everywhere(model, 10)) {
    EXPECT_TRUE(seen.insert(fingerprint(with_mistakes(model.options(), {choice}))).second)
        << choice.name << choice.text << choice.number.value_or(0.0);
  }
}

TEST(Hypotheses, of_a_block_are_made_in_that_block_alone) {
  const DiagnoseModel model = small_diagnose_model();
  for (const MistakeChoice& choice : choices_of_block(model, 1)) {
    EXPECT_TRUE(choice.where.starts_with("transformer.h.1")) << choice.where;
    const auto made = with_mistakes(model.options(), {choice});
    auto others = made;
    others.h[1] = model.options().h[1];
    EXPECT_EQ(fingerprint(others), fingerprint(model.options())) << choice.name;
    EXPECT_NE(fingerprint(made), fingerprint(model.options())) << choice.name;
  }
}

TEST(Hypotheses, a_bias_that_is_zero_cannot_be_missed) {
  DiagnoseModel model = small_diagnose_model();
  for (auto& block : model.parameters.h) {
    for (float& x : block.mlp.c_fc.bias) x = 0.0f;
  }
  for (const MistakeChoice& choice : choices_everywhere(model, 10)) {
    EXPECT_FALSE(choice.name == "weights.no-bias" && choice.text == "mlp.c_fc");
  }
}

TEST(Hypotheses, two_are_compatible_if_their_order_does_not_matter) {
  const auto right = small_diagnose_model().options();
  const MistakeChoice ddof{.name = "norm.ddof"}, no_affine{.name = "norm.no-affine"},
      no_bias{.name = "norm.no-bias"}, relu{.name = "activation.relu"},
      erf{.name = "activation.gelu-erf"};
  EXPECT_TRUE(compatible(right, ddof, relu));
  EXPECT_FALSE(compatible(right, relu, erf));
  EXPECT_FALSE(compatible(right, no_affine, no_bias));
}

}  // namespace
}  // namespace prenorm
