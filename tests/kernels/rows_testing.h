// What the tests of the row kernels share: matrices whose rows lie apart with guards between them,
// a deterministic source of values, and distances in units of the last place.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "prenorm/base/philox.h"
#include "prenorm/tensor/view.h"

namespace prenorm::rows_testing {

constexpr float kGuard = -7.25e11f;

// A matrix whose rows are `gap` floats longer than its width; the gaps hold kGuard.
class PaddedMatrix {
 public:
  PaddedMatrix(Index rows, Index width, Index gap = 5)
      : rows_(rows), width_(width), stride_(width + gap) {
    data_.assign(static_cast<std::size_t>(rows * stride_ + gap), kGuard);
  }
  Matrix view() { return {data_.data(), {rows_, width_}, {stride_, 1}}; }
  ConstMatrix cview() const { return {data_.data(), {rows_, width_}, {stride_, 1}}; }
  float& operator()(Index n, Index c) { return data_[static_cast<std::size_t>(n * stride_ + c)]; }
  float operator()(Index n, Index c) const {
    return data_[static_cast<std::size_t>(n * stride_ + c)];
  }
  Index rows() const { return rows_; }
  Index width() const { return width_; }
  bool guards_intact() const {
    for (Index n = 0; n < rows_; ++n) {
      for (Index c = width_; c < stride_; ++c) {
        if ((*this)(n, c) != kGuard) return false;
      }
    }
    for (auto i = static_cast<std::size_t>(rows_ * stride_); i < data_.size(); ++i) {
      if (data_[i] != kGuard) return false;
    }
    return true;
  }
  bool same_bits(const PaddedMatrix& other) const {
    return data_.size() == other.data_.size() &&
           std::memcmp(data_.data(), other.data_.data(), data_.size() * sizeof(float)) == 0;
  }

 private:
  Index rows_, width_, stride_;
  std::vector<float> data_;
};

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// About normal: the sum of twelve uniforms, from a counter.
inline float normal_value(std::uint64_t seed, std::uint64_t i) {
  const PhiloxKey key{static_cast<std::uint32_t>(seed), 77};
  double sum = -6.0;
  for (std::uint64_t j = 0; j < 12; ++j) sum += random_word(key, 12 * i + j) * 0x1p-32;
  return static_cast<float>(sum);
}

inline void fill_normal(PaddedMatrix& m, std::uint64_t seed, float mean = 0, float spread = 1) {
  for (Index n = 0; n < m.rows(); ++n) {
    for (Index c = 0; c < m.width(); ++c) {
      m(n, c) = mean + spread * normal_value(seed, static_cast<std::uint64_t>(n * m.width() + c));
    }
  }
}

inline std::vector<float> normal_vector(Index n, std::uint64_t seed, float mean = 0) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = mean + normal_value(seed, i);
  return v;
}

inline ConstVector view_of(const std::vector<float>& v) {
  return {v.data(), {static_cast<Index>(v.size())}};
}
inline Vector view_of(std::vector<float>& v) { return {v.data(), {static_cast<Index>(v.size())}}; }

// |got − expected| in units of the last place of the float nearest to expected.
inline double ulps(float got, long double expected) {
  const auto nearest = static_cast<float>(expected);
  if (std::isnan(got) || std::isinf(nearest)) return got == nearest ? 0.0 : 1e30;
  const float magnitude = std::fabs(nearest);
  const float above = std::nextafter(magnitude, std::numeric_limits<float>::infinity());
  const long double unit = std::isinf(above)
                               ? static_cast<long double>(magnitude) -
                                     static_cast<long double>(std::nextafter(magnitude, 0.0f))
                               : static_cast<long double>(above) - magnitude;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - expected) / unit);
}

}  // namespace prenorm::rows_testing
