#include "prenorm/layers/xavier_uniform.h"

#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/base/philox.h"

namespace prenorm {

double xavier_uniform_bound(Index fan_in, Index fan_out) {
  return std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
}

void xavier_uniform(Parameter& weight, std::uint64_t seed, std::uint32_t number) {
  if (weight.shape.size() != 2) {
    throw ShapeError("xavier_uniform: '" + weight.name + "': expected a matrix, found " +
                     std::to_string(weight.shape.size()) + " axes");
  }
  const double bound = xavier_uniform_bound(weight.shape[0], weight.shape[1]);
  const PhiloxKey key = RandomStream{seed, Purpose::kInitialise, 0, number}.key();
  for (std::size_t i = 0; i < weight.value.size(); ++i) {
    weight.value[i] = static_cast<float>(bound * (2.0 * random_double(key, i) - 1.0));
  }
}

}  // namespace prenorm
