#include "prenorm/study/fingerprint_kernels.h"

#include <array>
#include <cmath>

#include "prenorm/base/philox.h"
#include "prenorm/base/portable_math.h"
#include "prenorm/kernels/activation.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/kernels/add.h"
#include "prenorm/kernels/attention.h"
#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/dropout.h"
#include "prenorm/kernels/embedding.h"
#include "prenorm/kernels/layer_norm.h"
#include "prenorm/kernels/matmul_bf16.h"

namespace prenorm {

void BitHash::add_bytes(const void* bytes, std::size_t count) {
  const auto* byte = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) state_ = (state_ ^ byte[i]) * 0x100000001b3u;
}

Numbers::Numbers(Index rows, Index columns, std::uint64_t seed, double size)
    : shape_{rows, columns}, values_(static_cast<std::size_t>(rows * columns)) {
  if (size == 0.0) return;
  const PhiloxKey key = RandomStream{.seed = seed}.key();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    values_[i] = static_cast<float>((2.0 * random_double(key, i) - 1.0) * size);
  }
}

namespace {

using kernels::Right;

// Several sum blocks, and sizes that no tile or vector divides.
constexpr Index kRows = 37, kInner = 600, kColumns = 83;

std::uint64_t hash_of(ConstMatrix x) {
  BitHash hash;
  hash.add(x);
  return hash.value();
}

std::uint64_t random_numbers(const Runtime&) { return hash_of(Numbers(8, 1000, 1)); }

std::uint64_t portable_functions(const Runtime&) {
  BitHash hash;
  const PhiloxKey key = RandomStream{.seed = 2}.key();
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const double u = random_double(key, 2 * i), v = random_double(key, 2 * i + 1);
    const double x = 40.0 * (2.0 * u - 1.0);
    const std::array pair = normal_pair(u, v);
    hash.add(std::span<const double>(std::array{
        portable_exp(x), portable_log(u + 1e-300), portable_log1p(v), portable_cos(x),
        portable_sin(x), portable_cos_pi(x), portable_sin_pi(x), pow_int(u, i), pair[0], pair[1]}));
  }
  return hash.value();
}

template <Right::Form kForm>
std::uint64_t matmul_hash(const Runtime& run) {
  const Numbers a(kRows, kInner, 1), bias(1, kColumns, 3), residual(kRows, kColumns, 4);
  constexpr bool kTransposed = kForm == Right::Form::kTransposed;
  const Numbers b(kTransposed ? kColumns : kInner, kTransposed ? kInner : kColumns, 2);
  Numbers c(kRows, kColumns);
  kernels::Epilogue then;
  then.bias = ConstMatrix(bias)[0];
  then.residual = residual;
  const Right right = kTransposed ? Right::transposed(b) : Right::plain(b);
  const kernels::PackedMatrix packed(run, right);
  kernels::matmul(run, a, kForm == Right::Form::kPacked ? Right::panels(packed) : right, c, then);
  return hash_of(c);
}

std::uint64_t weight_gradient(const Runtime& run) {
  const Numbers a(kInner, kRows, 1), b(kInner, kColumns, 2);
  Numbers c(kRows, kColumns, 3);
  kernels::matmul_transposed_accumulate(run, a, b, c);
  return hash_of(c);
}

std::uint64_t column_sums(const Runtime& run) {
  Numbers sums(1, kColumns, 2);
  kernels::add_column_sums(run, Numbers(kInner, kColumns, 1), sums.row(0));
  return hash_of(sums);
}

std::uint64_t sum_and_dropout(const Runtime& run) {
  const Numbers a(kRows, kColumns, 1), b(kRows, kColumns, 2);
  Numbers y(kRows, kColumns);
  kernels::add(run, a, b, y);
  const kernels::Dropout drop{{.seed = 5, .purpose = Purpose::kEmbeddingDropout}, 0.3, 11};
  kernels::dropout(run, drop, y, b, y);
  return hash_of(y);
}

// x has rows of several sizes and means.
struct NormProblem {
  Numbers x{300, kColumns, 1}, weight{1, kColumns, 2}, bias{1, kColumns, 3}, y{300, kColumns};
  std::vector<double> mean = std::vector<double>(300), rstd = mean;

  explicit NormProblem(const Runtime& run) {
    for (Index n = 0; n < 300; ++n) {
      for (Index c = 0; c < kColumns; ++c) {
        x.row(n)[c] = x.row(n)[c] * static_cast<float>(1 + n % 7) + static_cast<float>(n % 5 * 100);
      }
    }
    kernels::layer_norm_forward(run, x, weight.row(0), bias.row(0), 1e-5, y, view(mean),
                                view(rstd));
  }
  static DoubleVector view(std::vector<double>& v) { return DoubleVector(v.data(), {300}); }
};

std::uint64_t norm_forward(const Runtime& run) {
  NormProblem p(run);
  BitHash hash;
  hash.add(ConstMatrix(p.y));
  hash.add(std::span<const double>(p.mean));
  hash.add(std::span<const double>(p.rstd));
  return hash.value();
}

std::uint64_t norm_backward(const Runtime& run) {
  NormProblem p(run);
  const Numbers dy(300, kColumns, 4);
  Numbers dx(300, kColumns), dweight(1, kColumns), dbias(1, kColumns);
  kernels::layer_norm_backward(run, dy, p.x, p.weight.row(0), NormProblem::view(p.mean),
                               NormProblem::view(p.rstd), {}, dx, dweight.row(0), dbias.row(0));
  BitHash hash;
  for (const Numbers* part : {&dx, &dweight, &dbias}) hash.add(ConstMatrix(*part));
  return hash.value();
}

std::uint64_t activations(const Runtime& run) {
  BitHash hash;
  const Numbers x(64, 257, 1, 12.0), dy(64, 257, 2);
  for (Activation act : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    Numbers y(64, 257), dx(64, 257);
    kernels::activation_forward(run, act, x, y);
    kernels::activation_backward(run, act, dy, x, dx);
    hash.add(ConstMatrix(y));
    hash.add(ConstMatrix(dx));
  }
  return hash.value();
}

std::uint64_t softmax_hash(const Runtime& run) {
  Numbers y(9, 1003);
  kernels::softmax(run, Numbers(9, 1003, 1, 20.0), y);
  return hash_of(y);
}

std::uint64_t cross_entropy_hash(const Runtime& run) {
  Numbers logits(9, 1003, 1, 20.0);
  const std::array<TokenId, 9> targets{0, 1002, -1, 500, 16, 15, 17, 999, 3};
  std::array<double, 9> losses{};
  kernels::cross_entropy_forward_backward(run, logits, View<const TokenId, 1>(targets.data(), {9}),
                                          0.125, DoubleVector(losses.data(), {9}));
  BitHash hash;
  hash.add(std::span<const double>(losses));
  hash.add(ConstMatrix(logits));
  return hash.value();
}

std::uint64_t embedding_hash(const Runtime& run) {
  const std::array<TokenId, 10> tokens{3, 0, 3, 6, 5, 5, 5, 1, 2, 3};
  const TokenMatrix ids(tokens.data(), {2, 5});
  Numbers y(10, kColumns), dtokens(7, kColumns), dpositions(6, kColumns);
  kernels::embedding_forward(run, ids, Numbers(7, kColumns, 1), Numbers(6, kColumns, 2), 1, y);
  kernels::embedding_backward(run, ids, Numbers(10, kColumns, 3), dtokens, dpositions);
  BitHash hash;
  for (const Numbers* part : {&y, &dtokens, &dpositions}) hash.add(ConstMatrix(*part));
  return hash.value();
}

// Both passes of attention: 2 sequences of 70 tokens, 3 heads of 20.
template <bool kMasked, int kSize>
struct AttentionProblem {
  static constexpr Index kTime = 70, kWidth = 60, kAll = 2 * kTime;
  Numbers qkv{kAll, 3 * kWidth, 1, kSize}, added{kTime, kTime, 3}, out{kAll, kWidth};
  Numbers row_max{1, kAll * 3}, dqkv{kAll, 3 * kWidth};
  std::vector<double> row_sum = std::vector<double>(kAll * 3);
  kernels::AttentionShape shape{
      .batch = 2, .time = kTime, .heads = 3, .head_width = 20, .scale = 0.2236};
  kernels::AttentionDropout dropout{{{.seed = 7, .purpose = Purpose::kAttentionDropout}, 0.2}, 4};
  kernels::AttentionMask mask;

  explicit AttentionProblem(const Runtime& run) {
    if (kMasked) {
      for (Index t = 0; t < kTime; ++t) {
        for (Index s = t % 3; s < kTime; s += 5) added.row(t)[s] = -HUGE_VALF;
      }
      mask.added =
          View<const float, 4>(added.values().data(), {2, 3, kTime, kTime}, {0, 0, kTime, 1});
      shape.causal = false;
      dropout.drop.p = 0.0;
    }
    kernels::attention_forward(run, shape, inputs(), mask, out, row_max.row(0), sums(), dropout);
  }
  DoubleVector sums() { return DoubleVector(row_sum.data(), {kAll * 3}); }
  kernels::AttentionInputs inputs() const { return kernels::split_qkv(ConstMatrix(qkv)); }
};

template <bool kMasked, int kSize = 2>
std::uint64_t attention_forward_hash(const Runtime& run) {
  return hash_of(AttentionProblem<kMasked, kSize>(run).out);
}

template <bool kMasked, int kSize = 2>
std::uint64_t attention_backward_hash(const Runtime& run) {
  AttentionProblem<kMasked, kSize> p(run);
  kernels::attention_backward(run, p.shape, Numbers(p.kAll, p.kWidth, 2), p.inputs(), p.mask, p.out,
                              p.row_max.row(0), p.sums(), kernels::split_qkv(Matrix(p.dqkv)),
                              p.dropout);
  return hash_of(p.dqkv);
}

std::uint64_t adamw_hash(const Runtime& run) {
  Numbers value(1, 1001, 1), grad(1, 1001, 2), first(1, 1001, 3), second(1, 1001, 4);
  for (float& x : second.values()) x = x * x;
  BitHash hash;
  hash.add(std::span<const double>(std::array{kernels::sum_of_squares(run, grad.values())}));
  kernels::adamw(run, {.weight_decay = 0.1, .step = 3, .grad_scale = 0.5},
                 {value.values(), grad.values(), first.values(), second.values()});
  for (const Numbers* part : {&value, &first, &second}) hash.add(ConstMatrix(*part));
  return hash.value();
}

// Both forms of the right operand with an activation, and the weight gradient, which goes on from
// the sums of other tokens.
template <Products kProducts>
std::uint64_t bf16_products(const Runtime& run) {
  using kernels::Bf16Role;
  const Numbers a(kRows, kInner, 1), b(kInner, kColumns, 2), bt(kColumns, kInner, 5);
  const Numbers bias(1, kColumns, 3), dy(kRows, kColumns, 4, 1e-3);
  Numbers c(kRows, kColumns), activated(kRows, kColumns), dweight(kInner, kColumns);
  kernels::Epilogue then;
  then.bias = ConstMatrix(bias)[0];
  then.activated = activated;
  BitHash hash;
  for (const Right& right : {Right::plain(b), Right::transposed(bt)}) {
    kernels::matmul_bf16(run, kProducts, {a, Bf16Role::kValue}, right, Bf16Role::kValue, c, then);
    kernels::matmul_transposed_accumulate_bf16(run, kProducts, {a, Bf16Role::kValue},
                                               {dy, Bf16Role::kGradient}, dweight);
    for (const Numbers* part : {&c, &activated, &dweight}) hash.add(ConstMatrix(*part));
  }
  return hash.value();
}

}  // namespace

std::span<const KernelFingerprint> kernel_fingerprints() {
  static constexpr std::array kAll = {
      KernelFingerprint{"random numbers", random_numbers},
      KernelFingerprint{"portable functions", portable_functions},
      KernelFingerprint{"matmul", matmul_hash<Right::Form::kPlain>},
      KernelFingerprint{"matmul, transposed", matmul_hash<Right::Form::kTransposed>},
      KernelFingerprint{"matmul, packed", matmul_hash<Right::Form::kPacked>},
      KernelFingerprint{"weight gradient", weight_gradient},
      KernelFingerprint{"column sums", column_sums},
      KernelFingerprint{"sum and dropout", sum_and_dropout},
      KernelFingerprint{"layer norm", norm_forward},
      KernelFingerprint{"layer norm backward", norm_backward},
      KernelFingerprint{"activations", activations},
      KernelFingerprint{"softmax", softmax_hash},
      KernelFingerprint{"cross-entropy", cross_entropy_hash},
      KernelFingerprint{"embedding", embedding_hash},
      KernelFingerprint{"attention", attention_forward_hash<false>},
      KernelFingerprint{"attention backward", attention_backward_hash<false>},
      KernelFingerprint{"masked attention", attention_forward_hash<true>},
      KernelFingerprint{"masked attention backward", attention_backward_hash<true>},
      KernelFingerprint{"attention of large scores", attention_forward_hash<true, 9>},
      KernelFingerprint{"its backward", attention_backward_hash<true, 9>},
      KernelFingerprint{"AdamW", adamw_hash},
  };
  return kAll;
}

std::span<const KernelFingerprint> bf16_fingerprints() {
  static constexpr std::array kAll = {
      KernelFingerprint{"products in bfloat16, dot", bf16_products<Products::kBfloat16Dot>},
      KernelFingerprint{"products in bfloat16, tile", bf16_products<Products::kBfloat16Tile>},
  };
  return kAll;
}

}  // namespace prenorm
