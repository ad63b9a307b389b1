#include "prenorm/model/initialize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/model/gpt.h"
#include "tests/config_of.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

GptConfig config() { return config_of(2, 2, 32, 64, 300); }

std::vector<float> values_of(const Gpt& model) {
  const auto values = model.parameters().values();
  return {values.begin(), values.end()};
}

const Parameter& find(const Gpt& model, const std::string& name) {
  const Parameter* p = model.parameters().find(name);
  EXPECT_NE(p, nullptr) << name;
  return *p;
}

// Mean and standard deviation within kSigmas standard errors of those of normal(0, deviation).
void expect_normal(std::span<const float> x, double deviation, const std::string& name) {
  const auto n = static_cast<double>(x.size());
  double sum = 0.0, squares = 0.0, cubes = 0.0, fourth = 0.0;
  for (float value : x) {
    const double z = value / deviation;
    sum += z;
    squares += z * z;
    cubes += z * z * z;
    fourth += z * z * z * z;
  }
  // Standard errors of the first four moments, from the moments 1, 3, 15, 105 of z.
  EXPECT_NEAR(sum / n, 0.0, tolerance::kSigmas * std::sqrt(1.0 / n)) << name;
  EXPECT_NEAR(squares / n, 1.0, tolerance::kSigmas * std::sqrt(2.0 / n)) << name;
  EXPECT_NEAR(cubes / n, 0.0, tolerance::kSigmas * std::sqrt(15.0 / n)) << name;
  EXPECT_NEAR(fourth / n, 3.0, tolerance::kSigmas * std::sqrt(96.0 / n)) << name;
}

TEST(Initialize, matrices_are_normal_with_gpt2s_deviation_and_residual_projections_smaller) {
  for (Index layers : {2, 8}) {
    GptConfig c = config();
    c.n_layer = layers;
    c.tie_word_embeddings = false;
    Gpt model(c);
    model.initialize(5);
    std::vector<float> projections, others;
    for (const Parameter& p : model.parameters()) {
      if (p.shape.size() != 2) continue;
      const bool residual = p.name.find("c_proj") != std::string::npos;
      std::vector<float>& all = residual ? projections : others;
      all.insert(all.end(), p.value.begin(), p.value.end());
      const double deviation =
          residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(layers)) : 0.02;
      expect_normal(p.value, deviation, p.name);
    }
    expect_normal(projections, 0.02 / std::sqrt(2.0 * static_cast<double>(layers)), "c_proj");
    expect_normal(others, 0.02, "others");
  }
}

TEST(Initialize, the_range_is_the_configs) {
  GptConfig c = config();
  c.initializer_range = 0.5;
  Gpt model(c);
  model.initialize(5);
  expect_normal(find(model, "transformer.wte.weight").value, 0.5, "wte");
}

TEST(Initialize, biases_are_zero_and_norms_one_and_zero) {
  Gpt model(config());
  for (Parameter& p : model.parameters()) std::ranges::fill(p.value, 7.0f);
  model.initialize(5);
  int seen = 0;
  for (const Parameter& p : model.parameters()) {
    if (p.shape.size() != 1) continue;
    ++seen;
    const bool norm = p.name.find("ln_") != std::string::npos && p.name.ends_with(".weight");
    for (float value : p.value) EXPECT_EQ(value, norm ? 1.0f : 0.0f) << p.name;
  }
  EXPECT_EQ(seen, 2 * 8 + 2);
}

TEST(Initialize, is_a_function_of_the_seed_alone) {
  Gpt first(config()), second(config(), Gpt::Mode::kInference);
  first.initialize(1);
  second.initialize(2);
  EXPECT_NE(values_of(first), values_of(second));
  second.initialize(1);
  EXPECT_EQ(values_of(first), values_of(second));
  second.initialize((std::uint64_t{1} << 32) + 1);  // the upper half of the seed counts
  EXPECT_NE(values_of(first), values_of(second));
}

TEST(Initialize, an_element_depends_on_its_tensor_and_place_alone) {
  GptConfig larger = config();
  larger.vocab_size = 500;
  Gpt small(config()), large(larger);
  small.initialize(1);
  large.initialize(1);
  for (const Parameter& p : small.parameters()) {
    const Parameter& same = find(large, p.name);
    EXPECT_TRUE(std::equal(p.value.begin(), p.value.end(), same.value.begin())) << p.name;
  }
}

TEST(Initialize, no_two_tensors_share_their_numbers) {
  Gpt model(config());
  model.initialize(1);
  const auto& a = find(model, "transformer.h.0.attn.c_attn.weight").value;
  const auto& b = find(model, "transformer.h.1.attn.c_attn.weight").value;
  EXPECT_FALSE(std::equal(a.begin(), a.end(), b.begin()));
}

TEST(Initialize, its_kinds_have_names_both_ways) {
  for (const auto& [name, value] : kInitializations) {
    EXPECT_EQ(initialization_from_string(name), value);
    EXPECT_EQ(to_string(value), name);
  }
  EXPECT_THROW(initialization_from_string("pytorch"), ConfigError);
}

// Computed apart from this code, by Philox 4x32-10 and Box-Muller in Python's doubles. A change of
// these numbers changes every model that a seed stands for.
TEST(Initialize, gives_the_recorded_numbers) {
  Gpt model(config());
  model.initialize(1);
  const std::pair<const char*, std::vector<float>> recorded[] = {
      {"transformer.wte.weight", {-0x1.6d5c42p-11f, -0x1.08ca7p-7f, 0x1.1b29eep-6f}},
      {"transformer.wpe.weight", {-0x1.0073f8p-5f, -0x1.817ef4p-6f, -0x1.aa535p-6f}},
      {"transformer.h.0.attn.c_attn.weight", {-0x1.dc5cb8p-8f, -0x1.4605dep-6f, -0x1.5721e2p-5f}},
      {"transformer.h.1.mlp.c_proj.weight", {-0x1.e99be4p-7f, -0x1.ec4a4ep-8f, -0x1.15970ap-6f}}};
  for (const auto& [name, numbers] : recorded) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(find(model, name).value[i], numbers[i]) << name << " " << i;
    }
  }
}

TEST(Initialize, residual_projections_unscaled_are_as_large_as_the_other_matrices) {
  GptConfig c = config();
  c.n_layer = 8;
  Gpt model(c), before(c);
  model.initialize(1);
  before.initialize(1);
  unscale_residual_projections(model.parameters(), c);
  for (const Parameter& p : model.parameters()) {
    if (p.name.ends_with("c_proj.weight")) {
      expect_normal(p.value, c.initializer_range, p.name);
      continue;
    }
    const Parameter& same = find(before, p.name);
    EXPECT_TRUE(std::equal(p.value.begin(), p.value.end(), same.value.begin())) << p.name;
  }
}

}  // namespace
}  // namespace prenorm
