#include "prenorm/reference/gpt.h"

#include <gtest/gtest.h>

#include "tests/reference/expected_values.h"
#include "tests/reference/values.h"

namespace prenorm::reference {
namespace {

// Logits, loss and the gradient of every parameter against PyTorch in float64.
template <std::size_t N>
void expect_pytorch(const expected::Checksum (&rows)[N], const GptParameters<double>& p,
                    const GptOptions& options) {
  const Tokens tokens = tiny_tokens(), targets = tiny_targets();
  const double scale = 1.0 / static_cast<double>(count_targets(targets));
  const auto gradients = to_map(gpt_loss_backward(tokens, targets, scale, p, options));
  EXPECT_EQ(gradients.size() + 2, N);
  for (const expected::Checksum& row : rows) {
    const std::string name = row.name;
    const double found = name == "logits" ? checksum(gpt(tokens, p, options))
                         : name == "loss" ? gpt_loss(tokens, targets, scale, p, options)
                                          : checksum(gradients.at(name));
    EXPECT_NEAR(found, row.value, 1e-12) << name;
  }
}

TEST(Gpt, pre_norm_with_a_tied_head_is_pytorchs) {
  expect_pytorch(expected::kPreTied, tiny_parameters(), tiny_options());
}

TEST(Gpt, post_norm_with_its_own_head_and_no_biases_is_pytorchs) {
  const GptSettings settings{.n_layer = kLayers,
                             .n_head = kHeads,
                             .norm = NormPlacement::kPost,
                             .activation = Activation::kGelu,
                             .tied = false};
  expect_pytorch(expected::kPostUntied, tiny_parameters({.tied = false, .bias = false}),
                 gpt_options(settings));
}

TEST(Gpt, a_hand_gradient_agrees_with_central_differences_in_long_double) {
  const GptParameters<double> p = tiny_parameters();
  const auto loss = [&](long double move) {
    GptParameters<long double> q = cast<long double>(p);
    q.h[0].mlp.c_fc.weight[5] += move;
    return gpt_loss(tiny_tokens(), tiny_targets(), 1.0L, q, tiny_options());
  };
  const long double slope = (loss(1e-5L) - loss(-1e-5L)) / 2e-5L;
  const auto d = gpt_loss_backward(tiny_tokens(), tiny_targets(), 1.0, p, tiny_options());
  EXPECT_NEAR(d.h[0].mlp.c_fc.weight[5], static_cast<double>(slope), 1e-9);
}

TEST(Gpt, every_stage_is_recorded_under_hugging_faces_name) {
  Stages<double> stages;
  const Tensor<double> logits =
      gpt(tiny_tokens(), tiny_parameters(), tiny_options(), {}, Recorder<double>(&stages));
  std::string names;
  for (const auto& [name, value] : stages.entries()) names += name + "\n";
  std::string want = "transformer.drop\n";
  for (const char* block : {"transformer.h.0", "transformer.h.1"}) {
    for (const char* part : {".ln_1", ".attn.c_attn", ".attn.c_proj", ".ln_2", ".mlp.c_fc",
                             ".mlp.act", ".mlp.c_proj", ""}) {
      want += std::string(block) + part + "\n";
    }
  }
  EXPECT_EQ(names, want + "transformer.ln_f\nlogits\n");
  EXPECT_EQ(*stages.find("logits"), logits);
  EXPECT_EQ(stages.find("transformer.h.2"), nullptr);
}

TEST(Gpt, a_norm_called_twice_leaves_its_second_result_and_one_left_out_leaves_none) {
  GptOptions options = tiny_options();
  Stages<double> twice, none;
  options.mistakes.final_norm_calls = 2;
  gpt(tiny_tokens(), tiny_parameters(), options, {}, Recorder<double>(&twice));
  const GptParameters<double> p = tiny_parameters();
  const Tensor<double> once = layer_norm(*twice.find("transformer.h.1"), p.ln_f);
  EXPECT_EQ(*twice.find("transformer.ln_f"), layer_norm(once, p.ln_f));
  options.mistakes.final_norm_calls = 0;
  gpt(tiny_tokens(), p, options, {}, Recorder<double>(&none));
  EXPECT_EQ(none.find("transformer.ln_f"), nullptr);
}

TEST(Gpt, bad_tokens_lengths_and_heads_are_refused) {
  const auto run = [](const Tokens& tokens, const GptOptions& options) {
    return gpt(tokens, tiny_parameters(), options);
  };
  EXPECT_THROW(run(Tokens({1, 2}, {3, 7}), tiny_options()), DataError);
  EXPECT_THROW(run(Tokens({1, 2}, {3, -1}), tiny_options()), DataError);
  EXPECT_THROW(run(Tokens({1, 7}), tiny_options()), ShapeError);
  EXPECT_THROW(run(Tokens({2}), tiny_options()), ShapeError);
  EXPECT_THROW(run(tiny_tokens(), gpt_options({.n_layer = 1, .n_head = 3})), ConfigError);
  GptOptions untied = tiny_options();
  untied.tied = false;
  EXPECT_THROW(run(tiny_tokens(), untied), ConfigError);
}

}  // namespace
}  // namespace prenorm::reference
