#include "prenorm/formats/cast.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace prenorm {
namespace {

// A double as the float whose last bit says whether something was cut off: rounding that once more
// to fewer bits is the same as rounding the double.
float rounded_to_odd(double value) {
  float f = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(f) == value) return f;
  if (std::abs(static_cast<double>(f)) > std::abs(value)) f = std::nextafter(f, 0.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) | 1u);
}

template <typename T>
void put(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof value);
}

}  // namespace

Tensor cast_tensor(const Tensor& tensor, Dtype dtype) {
  if (tensor.dtype == dtype) return tensor;
  constexpr std::size_t kBlock = 4096;
  const std::size_t from = dtype_size(tensor.dtype), to = dtype_size(dtype);
  const std::size_t count = tensor.bytes.size() / from;
  const auto bytes = std::make_shared<std::vector<std::byte>>(count * to);
  std::vector<double> block(kBlock);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    const std::span<double> values = std::span(block).first(n);
    doubles_from(tensor.dtype, tensor.bytes.subspan(begin * from, n * from), values);
    std::byte* out = bytes->data() + begin * to;
    for (std::size_t i = 0; i < n; ++i, out += to) {
      switch (dtype) {
        case Dtype::kF64:
          put(out, values[i]);
          break;
        case Dtype::kF16:
          put(out, f16_from_float(rounded_to_odd(values[i])));
          break;
        case Dtype::kBF16:
          put(out, bf16_from_float(rounded_to_odd(values[i])));
          break;
        default:
          put(out, static_cast<float>(values[i]));
          break;
      }
    }
  }
  return {tensor.name, dtype, tensor.shape, *bytes, bytes};
}

}  // namespace prenorm
