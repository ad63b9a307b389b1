// The fingerprints of the kernels alone: each one's bits on inputs with odd sizes, more than one
// block of a sum, and tails. Used by fingerprint.h.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm {

// FNV-1a, 64 bits (Fowler, Noll, Vo), over the bytes of numbers as they lie in memory.
class BitHash {
 public:
  template <typename T>
  void add(std::span<const T> numbers) {
    static_assert(std::is_arithmetic_v<T>);
    add_bytes(numbers.data(), numbers.size_bytes());
  }
  void add(ConstMatrix x) {
    for (Index n = 0; n < x.dim(0); ++n) {
      add(std::span<const float>(x[n].data(), static_cast<std::size_t>(x.dim(1))));
    }
  }
  std::uint64_t value() const { return state_; }

 private:
  void add_bytes(const void* bytes, std::size_t count);
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

// A matrix [rows, columns] with memory of its own, of numbers in [−size, size) that depend on the
// seed alone; zeros without a seed.
class Numbers {
 public:
  Numbers(Index rows, Index columns) : Numbers(rows, columns, 0, 0.0) {}
  Numbers(Index rows, Index columns, std::uint64_t seed, double size = 1.0);
  operator Matrix() { return Matrix(values_.data(), shape_); }  // NOLINT: on purpose
  operator ConstMatrix() const { return ConstMatrix(values_.data(), shape_); }  // NOLINT
  Vector row(Index n) { return Matrix(*this)[n]; }
  std::span<float> values() { return values_; }

 private:
  Matrix::Shape shape_;
  std::vector<float> values_;
};

struct KernelFingerprint {
  std::string_view name;
  std::uint64_t (*compute)(const Runtime& run);
};
std::span<const KernelFingerprint> kernel_fingerprints();
// Of the products in bfloat16: after all others, to which they came later.
std::span<const KernelFingerprint> bf16_fingerprints();

}  // namespace prenorm
