#include "prenorm/formats/cast.h"

#include <algorithm>
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

// take(values, begin): the elements from `begin` on as doubles, a block at a time.
template <typename Take>
void each_block(const Tensor& tensor, Take take) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t width = dtype_size(tensor.dtype);
  const std::size_t count = tensor.bytes.size() / width;
  std::vector<double> block(kBlock);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::span<double> values = std::span(block).first(std::min(kBlock, count - begin));
    doubles_from(tensor.dtype, tensor.bytes.subspan(begin * width, values.size() * width), values);
    take(std::span<const double>(values), begin);
  }
}

template <typename T>
void put(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof value);
}

}  // namespace

Tensor cast_tensor(const Tensor& tensor, Dtype dtype) {
  if (tensor.dtype == dtype) return tensor;
  const std::size_t width = dtype_size(dtype);
  const std::size_t count = tensor.bytes.size() / dtype_size(tensor.dtype);
  const auto bytes = std::make_shared<std::vector<std::byte>>(count * width);
  each_block(tensor, [&](std::span<const double> values, std::size_t begin) {
    std::byte* out = bytes->data() + begin * width;
    for (const double value : values) {
      switch (dtype) {
        case Dtype::kF64:
          put(out, value);
          break;
        case Dtype::kF16:
          put(out, f16_from_float(rounded_to_odd(value)));
          break;
        case Dtype::kBF16:
          put(out, bf16_from_float(rounded_to_odd(value)));
          break;
        default:
          put(out, static_cast<float>(value));
          break;
      }
      out += width;
    }
  });
  return {tensor.name, dtype, tensor.shape, *bytes, bytes};
}

Index count_infinite(const Tensor& tensor) {
  Index count = 0;
  each_block(tensor, [&](std::span<const double> values, std::size_t) {
    count += std::ranges::count_if(values, [](double value) { return std::isinf(value); });
  });
  return count;
}

}  // namespace prenorm
