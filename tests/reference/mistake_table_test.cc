#include "prenorm/reference/mistake_table.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/reference/expected_values.h"
#include "tests/reference/values.h"

namespace prenorm::reference {
namespace {

Tensor<double> logits_with(const MistakeChoice& choice) {
  GptOptions options = tiny_options();
  make_mistake(options, choice);
  return gpt(tiny_tokens(), tiny_parameters({.tied = false}), options);
}

TEST(MistakeTable, each_mistake_gives_what_mistaken_pytorch_code_gives) {
  for (const expected::MistakenLogits& row : expected::kMistakes) {
    const Tensor<double> logits =
        logits_with({.name = row.name, .where = row.where, .number = row.number, .text = row.text});
    EXPECT_NEAR(checksum(logits), row.logits, 1e-12) << row.name << " " << row.where << row.text;
  }
}

TEST(MistakeTable, pytorch_values_cover_every_mistake_of_the_table) {
  std::set<std::string> covered;
  for (const expected::MistakenLogits& row : expected::kMistakes) covered.insert(row.name);
  // Not a change of the tiny model, or arithmetic that PyTorch rounds in its own order.
  covered.insert({"activation.gelu-tanh", "weights.tied-head", "numbers.bf16", "numbers.f16"});
  for (const Mistake& mistake : mistakes()) {
    EXPECT_EQ(covered.count(std::string(mistake.name)), 1u) << mistake.name;
  }
}

TEST(MistakeTable, each_mistake_changes_the_logits_and_no_two_give_the_same) {
  const Tensor<double> right = gpt(tiny_tokens(), tiny_parameters({.tied = false}), tiny_options());
  std::vector<std::pair<std::string, Tensor<double>>> seen{{"no mistake", right}};
  for (const Mistake& mistake : mistakes()) {
    MistakeChoice choice{.name = std::string(mistake.name)};
    if (mistake.value == MistakeValue::kPacking) choice.text = "kqv";
    if (mistake.value == MistakeValue::kModule) choice.text = "attn.c_proj";
    if (mistake.name == "norm.eps-value") choice.number = 1e-3;
    if (mistake.name == "attention.mask-finite") choice.number = -1.5;
    if (mistake.name == "activation.gelu-tanh" || mistake.name == "weights.tied-head") continue;
    const Tensor<double> logits = logits_with(choice);
    for (const auto& [name, other] : seen) {
      EXPECT_GT(largest_difference(logits, other), 1e-9) << mistake.name << " and " << name;
    }
    seen.emplace_back(mistake.name, logits);
  }
}

TEST(MistakeTable, what_the_configuration_already_says_is_no_mistake) {
  const Tensor<double> right = gpt(tiny_tokens(), tiny_parameters({.tied = false}), tiny_options());
  EXPECT_EQ(logits_with({.name = "activation.gelu-tanh"}), right);
  EXPECT_EQ(logits_with({.name = "weights.tied-head"}), right);
  EXPECT_EQ(logits_with({.name = "attention.qkv-order", .text = "qkv"}), right);
}

TEST(MistakeTable, a_mistake_in_one_place_leaves_the_stages_before_it_alone) {
  GptOptions options = tiny_options();
  make_mistake(options, {.name = "norm.ddof", .where = "transformer.h.1.ln_2"});
  Stages<double> right, wrong;
  gpt(tiny_tokens(), tiny_parameters(), tiny_options(), {}, Recorder<double>(&right));
  gpt(tiny_tokens(), tiny_parameters(), options, {}, Recorder<double>(&wrong));
  EXPECT_EQ(*wrong.find("transformer.h.1.attn.c_proj"), *right.find("transformer.h.1.attn.c_proj"));
  EXPECT_NE(*wrong.find("transformer.h.1.ln_2"), *right.find("transformer.h.1.ln_2"));
}

TEST(MistakeTable, a_far_masked_score_set_to_a_finite_number_is_no_difference) {
  const Tensor<double> right = gpt(tiny_tokens(), tiny_parameters({.tied = false}), tiny_options());
  EXPECT_EQ(logits_with({.name = "attention.mask-finite", .number = -1e4}), right);
}

TEST(MistakeTable, small_numbers_move_the_logits_by_about_their_precision) {
  const Tensor<double> right = gpt(tiny_tokens(), tiny_parameters({.tied = false}), tiny_options());
  const double bf16 = largest_difference(logits_with({.name = "numbers.bf16"}), right);
  const double f16 = largest_difference(logits_with({.name = "numbers.f16"}), right);
  EXPECT_GT(bf16, 1e-3);
  EXPECT_LT(bf16, 1e-1);
  EXPECT_GT(f16, 1e-4);
  EXPECT_LT(f16, 1e-2);
}

TEST(MistakeTable, unknown_names_modules_places_and_packings_are_refused) {
  EXPECT_THROW(logits_with({.name = "norm.dof"}), ConfigError);
  EXPECT_THROW(logits_with({.name = "weights.no-bias", .text = "mlp"}), ConfigError);
  EXPECT_THROW(logits_with({.name = "norm.ddof", .where = "transformer.h.2"}), ConfigError);
  EXPECT_THROW(logits_with({.name = "norm.ddof", .where = "transformer.h.0.ln_3"}), ConfigError);
  EXPECT_THROW(logits_with({.name = "norm.ddof", .where = "transformer.h.x"}), ConfigError);
  EXPECT_THROW(logits_with({.name = "attention.no-mask", .where = "transformer.h.0.ln_1"}),
               ConfigError);
  EXPECT_THROW(logits_with({.name = "position.offset", .where = "transformer.h.0"}), ConfigError);
  EXPECT_THROW(logits_with({.name = "attention.qkv-order", .text = "qqv"}), ConfigError);
  EXPECT_THROW(logits_with({.name = "position.offset", .number = 3}), ShapeError);
}

TEST(MistakeTable, the_backward_pass_refuses_a_mistaken_model) {
  for (const char* name : {"norm.ddof", "attention.no-mask", "structure.no-residual",
                           "structure.no-final-norm", "weights.no-bias"}) {
    GptOptions options = tiny_options();
    make_mistake(options, {.name = name, .text = "mlp.c_fc"});
    EXPECT_THROW(gpt_loss_backward(tiny_tokens(), tiny_targets(), 1.0, tiny_parameters(), options),
                 ConfigError)
        << name;
  }
}

}  // namespace
}  // namespace prenorm::reference
