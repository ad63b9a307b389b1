#include "prenorm/tensor/parameter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

TEST(ParameterRegistry, keeps_names_shapes_and_order) {
  ParameterRegistry registry;
  Parameter& weight = registry.add("h.0.weight", {3, 5});
  Parameter& bias = registry.add("h.0.bias", {5}, false);
  EXPECT_EQ(registry.count(), 2u);
  EXPECT_EQ(registry.total_size(), 20);
  EXPECT_TRUE(weight.decays);
  EXPECT_FALSE(bias.decays);
  EXPECT_EQ(registry.find("h.0.bias"), &bias);
  EXPECT_EQ(registry.find("h.1.bias"), nullptr);
  EXPECT_EQ(registry.begin()->name, "h.0.weight");
}

TEST(ParameterRegistry, refuses_a_name_twice) {
  ParameterRegistry registry;
  registry.add("a", {1});
  EXPECT_THROW(registry.add("a", {2}), Error);
}

TEST(ParameterRegistry, gives_references_that_stay_valid) {
  ParameterRegistry registry;
  Parameter& first = registry.add("first", {2});
  for (int i = 0; i < 1000; ++i) registry.add("p" + std::to_string(i), {2});
  EXPECT_EQ(&first, registry.find("first"));
  EXPECT_EQ(first.name, "first");
}

TEST(ParameterRegistry, places_zeroed_tensors_on_cache_lines_without_overlap) {
  ParameterRegistry registry;
  registry.add("a", {3, 5});
  registry.add("b", {5});
  registry.add("c", {17});
  registry.allocate(true);
  float mark = 1.0f;
  for (Parameter& p : registry) {
    EXPECT_EQ(static_cast<Index>(p.value.size()), p.size());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.value.data()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.grad.data()) % 64, 0u);
    for (float& v : p.value) {
      EXPECT_EQ(v, 0.0f);
      v = mark;
    }
    for (float& g : p.grad) {
      EXPECT_EQ(g, 0.0f);
      g = -mark;
    }
    mark += 1.0f;
  }
  mark = 1.0f;
  for (const Parameter& p : registry) {
    for (const float v : p.value) EXPECT_EQ(v, mark);
    for (const float g : p.grad) EXPECT_EQ(g, -mark);
    mark += 1.0f;
  }
  EXPECT_EQ(registry.find("a")->matrix()[1][2], 1.0f);
  EXPECT_EQ(registry.find("c")->grad_vector()[16], -3.0f);
  registry.zero_grad();
  for (const Parameter& p : registry) {
    for (const float g : p.grad) EXPECT_EQ(g, 0.0f);
  }
  EXPECT_EQ(registry.find("b")->vector()[0], 2.0f);
}

TEST(ParameterRegistry, without_gradients_has_none) {
  ParameterRegistry registry;
  registry.add("a", {3});
  registry.allocate(false);
  EXPECT_TRUE(registry.grads().empty());
  EXPECT_TRUE(registry.find("a")->grad.empty());
  EXPECT_EQ(registry.find("a")->value.size(), 3u);
  registry.zero_grad();
}

}  // namespace
}  // namespace prenorm
