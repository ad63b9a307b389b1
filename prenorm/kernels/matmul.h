// Matrix products with one fixed arithmetic:
//
//   c[m, n] = init + G_0 + G_1 + …     G_g = S_16g + S_16g+1 + … + S_16g+15
//                                      S_b = one chain of fused multiply-adds from zero, in
//                                      ascending k, over k in [128 b, 128 b + 128)
//
// each sum in ascending order, where init is zero, the bias or what c holds. The bits of an element
// depend on nothing else: not on the instruction set, the tile, the threads, or how many rows are
// computed together. Every product of the library goes through here. The three levels keep the
// error of a sum of 50,257 products as small as that of one of 768.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "prenorm/kernels/activation.h"
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/buffer.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

// Parts of the arithmetic, not tuning knobs.
constexpr Index kSumBlock = 128;
constexpr Index kSumGroup = 16 * kSumBlock;
constexpr Index kTokenBlock = 256;  // of the sums over tokens

// The right-hand matrix [K, N], in one of three forms.
class PackedMatrix;
struct Right {
  enum class Form { kPlain, kTransposed, kPacked };
  Form form = Form::kPlain;
  ConstMatrix matrix;                    // [K, N] if plain, [N, K] if transposed
  const PackedMatrix* packed = nullptr;  // if packed

  static Right plain(ConstMatrix b) { return {Form::kPlain, b, nullptr}; }
  static Right transposed(ConstMatrix b) { return {Form::kTransposed, b, nullptr}; }
  static Right panels(const PackedMatrix& b) { return {Form::kPacked, {}, &b}; }

  Index k() const;
  Index n() const;
};

// How packed weights are stored. Whatever the format, a weight is widened to a float before it is
// used: a product has the bits of one with those floats.
enum class WeightFormat { kFloat32, kBfloat16 };

// The numbers as bfloat16 holds them, rounded to nearest even.
void round_to_bfloat16(const Runtime& run, std::span<float> numbers);
// Whether bfloat16 holds each of them as it is.
bool are_bfloat16(std::span<const float> numbers);

// A right-hand matrix in the order in which the kernel of one instruction set reads it, for weights
// that are used many times (generation). Panels [ceil(N / width)][K][width], zero-padded. Numbers
// are rounded to the format.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(const Runtime& run, const Right& source,
               WeightFormat format = WeightFormat::kFloat32);
  Index k() const { return k_; }
  Index n() const { return n_; }
  Index width() const { return width_; }
  WeightFormat format() const { return format_; }
  const float* floats() const { return memory_.floats().data(); }  // if in float32
  const std::uint16_t* bfloats() const {                           // if in bfloat16
    return reinterpret_cast<const std::uint16_t*>(memory_.data());
  }
  // Whether this runtime's kernels can read it: packed, and for the same instruction set.
  bool serves(const Runtime& run) const { return memory_.size() != 0 && isa_ == run.isa(); }
  static std::size_t bytes(Isa isa, Index k, Index n, WeightFormat format = WeightFormat::kFloat32);

 private:
  Buffer memory_;
  Index k_ = 0, n_ = 0, width_ = 0;
  Isa isa_ = Isa::kAvx2;
  WeightFormat format_ = WeightFormat::kFloat32;
};

// What happens around the sum, while the tile is still in cache.
struct Epilogue {
  bool accumulate = false;  // init is what c holds (excludes bias)
  ConstVector bias;         // init is bias[n]; [N] or empty
  // After the sum, at most one of these, or the last two:
  ConstMatrix residual;          // c = residual + sum; [M, N]
  Matrix activated;              // activated = act(sum), c keeps the sum; [M, N]
  ConstMatrix activation_input;  // c = sum * act'(activation_input); [M, N]. With `activated`:
                                 // activated = act(activation_input)
  Activation activation = Activation::kGeluTanh;
};

// c = a b with the epilogue. a: [M, K] with any row stride, c: [M, N].
// Requires: c overlaps no operand.
void matmul(const Runtime& run, ConstMatrix a, const Right& b, Matrix c, const Epilogue& epilogue);

// c += aᵀ b: the weight gradient. a: [K, M], b: [K, N], c: [M, N]. The sums S_b over K (the tokens)
// are added to c without groups, so that micro-batches of a multiple of 128 tokens give the same
// bits as one. With column_sums, [N]: what add_column_sums() adds of b, too.
void matmul_transposed_accumulate(const Runtime& run, ConstMatrix a, ConstMatrix b, Matrix c,
                                  Vector column_sums = {});

// sums[n] += Σ_m x[m, n], in blocks of 256 rows, each in double: the bias
// gradient. x: [M, N], sums: [N].
void add_column_sums(const Runtime& run, ConstMatrix x, Vector sums);

}  // namespace prenorm::kernels
