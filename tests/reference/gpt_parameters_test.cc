#include "prenorm/reference/gpt_parameters.h"

#include <gtest/gtest.h>

#include "tests/reference/values.h"

namespace prenorm::reference {
namespace {

TEST(GptParameters, parameters_go_through_a_map_and_back) {
  const GptParameters<double> p = tiny_parameters({.tied = false});
  ParameterMap<double> map = to_map(p);
  EXPECT_EQ(map.size(), 2u + 12u * 2u + 3u);
  EXPECT_EQ(to_map(from_map(map, kLayers)), map);
  map.erase("transformer.h.1.ln_2.bias");  // a model without this bias
  EXPECT_TRUE(from_map(map, kLayers).h[1].ln_2.bias.absent());
  map.erase("transformer.h.1.ln_2.weight");
  EXPECT_THROW(from_map(map, kLayers), FormatError);
}

TEST(GptParameters, an_absent_bias_stays_absent_in_every_form) {
  const GptParameters<double> p = tiny_parameters({.bias = false});
  EXPECT_TRUE(cast<float>(p).h[1].attn.c_attn.bias.absent());
  EXPECT_TRUE(gpt_parameters(flattened(p), kLayers).h[0].ln_1.bias.absent());
  EXPECT_EQ(to_map(gpt_parameters(flattened(p), kLayers)), to_map(p));
}

TEST(GptParameters, every_parameter_is_rounded) {
  const GptParameters<double> p = tiny_parameters();
  const ParameterMap<double> before = to_map(p), after = to_map(rounded(p, Numbers::kBfloat16));
  EXPECT_NE(after, before);
  for (const auto& [name, tensor] : before) {
    for (Index i = 0; i < tensor.size(); ++i) {
      EXPECT_EQ(after.at(name)[i], round_to(tensor[i], Numbers::kBfloat16)) << name;
    }
  }
}

}  // namespace
}  // namespace prenorm::reference
