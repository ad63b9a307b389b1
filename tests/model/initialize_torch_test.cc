#include "prenorm/model/initialize_torch.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "prenorm/model/gpt.h"
#include "tests/config_of.h"

namespace prenorm {
namespace {

// No size of a matrix is a multiple of 16, and the table of positions has fewer than 16 elements.
GptConfig config(bool tied = true) {
  GptConfig c = config_of(2, 1, 5, 3, 11);
  c.tie_word_embeddings = tied;
  return c;
}

struct Recorded {
  const char* name;
  std::array<float, 3> corners;  // [0, 0], [0, 1] and the last
};

void expect_recorded(const Gpt& model, const std::vector<Recorded>& recorded) {
  for (const auto& [name, corners] : recorded) {
    const Parameter* p = model.parameters().find(name);
    ASSERT_NE(p, nullptr) << name;
    EXPECT_EQ(p->value[0], corners[0]) << name;
    EXPECT_EQ(p->value[1], corners[1]) << name;
    EXPECT_EQ(p->value.back(), corners[2]) << name;
  }
}

// What torch 2.13 gives for the model of tests/python/test_init_torch.py after manual_seed(42).
TEST(InitializeTorch, gives_torchs_weights) {
  Gpt model(config());
  model.initialize(42, Initialization::kTorch);
  expect_recorded(
      model,
      {{"transformer.wte.weight", {0x1.bc7248p-6f, -0x1.991c00p-6f, -0x1.13e6dap-6f}},
       {"transformer.wpe.weight", {0x1.c2a196p-5f, 0x1.c1bb78p-10f, -0x1.34e194p-5f}},
       {"transformer.h.0.attn.c_attn.weight", {0x1.3951d0p-7f, 0x1.e58796p-6f, 0x1.b06a5cp-7f}},
       {"transformer.h.0.attn.c_proj.weight", {-0x1.7486eap-8f, 0x1.de5256p-6f, -0x1.c29832p-8f}},
       {"transformer.h.1.mlp.c_fc.weight", {0x1.ef7d7ap-8f, -0x1.659a0ap-8f, 0x1.dc8886p-7f}},
       {"transformer.h.1.mlp.c_proj.weight", {-0x1.b47456p-8f, 0x1.01c492p-10f, 0x1.a83bbcp-12f}}});
}

TEST(InitializeTorch, an_untied_head_leaves_the_table_its_own_draw) {
  Gpt model(config(false));
  model.initialize(42, Initialization::kTorch);
  expect_recorded(
      model,
      {{"transformer.wte.weight", {0x1.0dab76p-6f, -0x1.2255c0p-6f, 0x1.3cf616p-8f}},
       {"lm_head.weight", {0x1.bc7248p-6f, -0x1.991c00p-6f, -0x1.13e6dap-6f}},
       {"transformer.h.1.mlp.c_proj.weight", {-0x1.b47456p-8f, 0x1.01c492p-10f, 0x1.a83bbcp-12f}}});
}

TEST(InitializeTorch, overwrites_every_value_and_leaves_biases_zero_and_norms_one_and_zero) {
  Gpt model(config(false));
  for (float& x : model.parameters().values()) x = 7.0f;
  model.initialize(1, Initialization::kTorch);
  for (const Parameter& p : model.parameters()) {
    const bool norm_weight = p.shape.size() == 1 && p.name.ends_with(".weight");
    for (const float x : p.value) {
      ASSERT_NE(x, 7.0f) << p.name;
      if (p.shape.size() == 1) {
        ASSERT_EQ(x, norm_weight ? 1.0f : 0.0f) << p.name;
      }
    }
  }
}

TEST(InitializeTorch, biases_change_the_draws_although_they_end_as_zeros) {
  GptConfig without = config();
  without.bias = false;
  Gpt first(config()), second(without);
  first.initialize(1, Initialization::kTorch);
  second.initialize(1, Initialization::kTorch);
  EXPECT_NE(first.parameters().find("transformer.wte.weight")->value[0],
            second.parameters().find("transformer.wte.weight")->value[0]);
}

TEST(InitializeTorch, has_another_stream_than_the_default) {
  Gpt first(config()), second(config());
  first.initialize(1, Initialization::kTorch);
  second.initialize(1);
  EXPECT_NE(first.parameters().find("transformer.wpe.weight")->value[0],
            second.parameters().find("transformer.wpe.weight")->value[0]);
}

}  // namespace
}  // namespace prenorm
