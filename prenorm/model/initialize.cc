#include "prenorm/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "prenorm/base/error.h"
#include "prenorm/base/philox.h"
#include "prenorm/base/portable_math.h"

namespace prenorm {
namespace {

// Normal(0, deviation): elements 2i and 2i + 1 from one pair of uniform numbers.
void fill_normal(Parameter& p, PhiloxKey key, double deviation) {
  const auto size = static_cast<std::uint64_t>(p.size());
  for (std::uint64_t i = 0; i < size; i += 2) {
    const auto [first, second] = normal_pair(random_double(key, i), random_double(key, i + 1));
    p.value[i] = static_cast<float>(deviation * first);
    if (i + 1 < size) p.value[i + 1] = static_cast<float>(deviation * second);
  }
}

}  // namespace

std::string_view to_string(Initialization initialization) {
  return name_in(kInitializations, initialization, "init", "a known initialisation");
}

Initialization initialization_from_string(std::string_view name) {
  return value_in(kInitializations, name, "init");
}

void initialize(ParameterRegistry& parameters, const GptConfig& config, std::uint64_t seed) {
  const double residual_scale = 1.0 / std::sqrt(2.0 * static_cast<double>(config.n_layer));
  std::uint32_t number = 0;
  for (Parameter& p : parameters) {
    const PhiloxKey key = RandomStream{seed, Purpose::kInitialise, 0, number++}.key();
    if (p.shape.size() == 1) {
      const bool norm_weight = p.name.ends_with(".weight");
      std::ranges::fill(p.value, norm_weight ? 1.0f : 0.0f);
    } else {
      const bool residual = p.name.ends_with("c_proj.weight");
      fill_normal(p, key, config.initializer_range * (residual ? residual_scale : 1.0));
    }
  }
}

void unscale_residual_projections(ParameterRegistry& parameters, const GptConfig& config) {
  const auto scale = static_cast<float>(std::sqrt(2.0 * static_cast<double>(config.n_layer)));
  for (Parameter& p : parameters) {
    if (!p.name.ends_with("c_proj.weight")) continue;
    for (float& value : p.value) value *= scale;
  }
}

}  // namespace prenorm
