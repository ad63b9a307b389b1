// Inputs of the textbook's tests, the same as expected_values.py writes: numbers without a pattern,
// exact in float.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "prenorm/reference/gpt.h"

namespace prenorm::reference {

inline Tensor<double> val(std::uint32_t k, const std::vector<Index>& shape, double den = 512.0) {
  Tensor<double> out(shape);
  for (Index i = 0; i < out.size(); ++i) {
    std::uint32_t h = static_cast<std::uint32_t>(i + 1) * 2654435761u + (k + 1) * 40503u;
    h = (h ^ (h >> 15)) * 2246822519u;
    h = (h ^ (h >> 13)) * 3266489917u;
    h ^= h >> 16;
    out[i] = (static_cast<double>(h % 1009) - 504.0) / den;
  }
  return out;
}

// One number that any wrong element moves: the dot product with another such tensor.
inline double checksum(const Tensor<double>& x) {
  const Tensor<double> other = val(900, x.shape());
  double sum = 0.0;
  for (Index i = 0; i < x.size(); ++i) sum += x[i] * other[i];
  return sum;
}

// The tiny model: 2 layers, width 6, 3 heads, feed-forward width 8, 7 tokens, 6 positions.
constexpr Index kLayers = 2, kWidth = 6, kHeads = 3, kInner = 8, kVocabulary = 7, kContext = 6;

inline Tokens tiny_tokens() { return Tokens({2, 4}, {3, 1, 6, 1, 0, 5, 2, 4}); }
inline Tokens tiny_targets() { return Tokens({2, 4}, {1, -1, 1, 2, 5, 2, -1, 6}); }

inline std::vector<Index> tiny_shape(const std::string& name) {
  if (name == "transformer.wpe.weight") return {kContext, kWidth};
  if (name == "transformer.wte.weight" || name == "lm_head.weight") return {kVocabulary, kWidth};
  const bool matrix = name.ends_with(".weight");
  if (name.find("c_attn") != std::string::npos) {
    return matrix ? std::vector<Index>{kWidth, 3 * kWidth} : std::vector<Index>{3 * kWidth};
  }
  if (name.find("c_fc") != std::string::npos) {
    return matrix ? std::vector<Index>{kWidth, kInner} : std::vector<Index>{kInner};
  }
  if (name.find("mlp.c_proj") != std::string::npos && matrix) return {kInner, kWidth};
  if (name.find("attn.c_proj") != std::string::npos && matrix) return {kWidth, kWidth};
  return {kWidth};
}

struct TinyModel {
  bool tied = true, bias = true;
};

inline GptParameters<double> tiny_parameters(const TinyModel& model = {}) {
  GptParameters<double> p;
  p.h.resize(static_cast<std::size_t>(kLayers));
  std::uint32_t k = 100;
  for_each_parameter(p, [&](const std::string& name, Tensor<double>& tensor) {
    tensor = val(k++, tiny_shape(name), 1024.0);
    const bool gamma = name.find(".ln_") != std::string::npos && name.ends_with(".weight");
    if (gamma) {
      for (double& element : tensor) element += 1.0;
    }
    if (!model.bias && name.ends_with(".bias")) tensor = {};
    if (model.tied && name == "lm_head.weight") tensor = {};
  });
  return p;
}

inline BlockParameters<double> tiny_block() { return tiny_parameters().h[0]; }

inline GptOptions tiny_options() { return gpt_options({.n_layer = kLayers, .n_head = kHeads}); }

inline BlockOptions tiny_block_options(NormPlacement norm = NormPlacement::kPre) {
  return gpt_options({.n_head = kHeads, .norm = norm}).h[0];
}

inline double largest_difference(const Tensor<double>& a, const Tensor<double>& b) {
  check_shape("largest_difference", a.shape(), b.shape());
  double largest = 0.0;
  for (Index i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace prenorm::reference
