#include "prenorm/study/diagnose_elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "prenorm/kernels/exp_wide.h"
#include "prenorm/kernels/matmul_wide.h"
#include "prenorm/reference/heads.h"
#include "prenorm/study/sum_of.h"

namespace prenorm {
namespace {

using reference::Activation;
using reference::AttentionOptions;
using reference::HeadPlace;
using reference::MaskMistake;
using reference::Numbers;

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

void run_pieces(const Runtime& run, Index pieces, bool spread, const auto& body) {
  if (spread) {
    run.pool().run(pieces, [&](Index i, int) { body(i); });
  } else {
    for (Index i = 0; i < pieces; ++i) body(i);
  }
}

// --- Attention ----------------------------------------------------------------------------------

// The keys [first, last) whose scores query t needs.
struct KeyRange {
  Index first, last;
};

KeyRange seen_keys(const AttentionOptions& options, Index t, Index time) {
  if (!options.causal || options.mistakes.mask == MaskMistake::kOff) return {0, time};
  if (options.mistakes.mask == MaskMistake::kInverted) return {t, time};
  const bool shifted = options.mistakes.mask == MaskMistake::kShifted;
  return {0, std::min(time, t + 1 + (shifted ? options.mistakes.mask_shift : 0))};
}

// One head of one sequence.
class Head {
 public:
  // Of the first `queries` tokens.
  Head(Isa isa, const Values& qkv, const HeadPlace& place, const AttentionOptions& options,
       Index queries)
      : isa_(isa),
        options_(options),
        by_kernel_(options.numbers == Numbers::kExact),
        in_float_(options.numbers == Numbers::kFloat32),
        time_(place.time),
        queries_(queries),
        width_(place.head_width),
        q_(take(qkv, place, 'q')),
        k_(reference::transposed(rounded(take(qkv, place, 'k'), options.cache_numbers))),
        v_(rounded(take(qkv, place, 'v'), options.cache_numbers)),
        p_({queries_, time_}) {}

  Values output() {
    scores();
    if (options_.mistakes.softmax_over_queries) {
      softmax_of_columns();
    } else {
      softmax_of_rows();
    }
    p_ = rounded(std::move(p_), options_.numbers);
    Values o({queries_, width_});
    if (by_kernel_) {
      kernels::matmul_wide(isa_, queries_, time_, width_, p_.row(0), v_.row(0), o.row(0));
      return rounded(std::move(o), options_.numbers);
    }
    for (Index t = 0; t < queries_; ++t) {
      double* out = o.row(t);
      for (Index s = 0; s < time_; ++s) {
        // A key that is not seen may even hold a NaN.
        if (const double p = p_(t, s); p != 0.0) add_scaled(p, v_.row(s), 0, width_, out);
      }
    }
    return rounded(std::move(o), options_.numbers);
  }

 private:
  static Values take(const Values& qkv, const HeadPlace& place, char part,
                     const AttentionOptions& options) {
    const auto& mistakes = options.mistakes;
    const bool in_a_row = mistakes.split == reference::HeadSplit::kSlices ||
                          mistakes.split == reference::HeadSplit::kInterleaved;
    if (!in_a_row) return take_head(qkv, place, part, mistakes);
    Values out({place.time, place.head_width});
    for (Index t = 0; t < place.time; ++t) {
      const reference::Place from = packed_place(place, part, t, 0, mistakes);
      std::copy_n(qkv.row(from.row) + from.column, place.head_width, out.row(t));
    }
    return out;
  }
  Values take(const Values& qkv, const HeadPlace& place, char part) const {
    return take(qkv, place, part, options_);
  }

  // sum[i] += factor * x[i] for i in [first, last).
  void add_scaled(double factor, const double* x, Index first, Index last, double* sum) const {
    if (!in_float_) {
      for (Index i = first; i < last; ++i) sum[i] += factor * x[i];
      return;
    }
    const auto f = static_cast<float>(factor);
    for (Index i = first; i < last; ++i) {
      sum[i] = static_cast<float>(sum[i]) + f * static_cast<float>(x[i]);
    }
  }

  bool set_to_value() const {
    return options_.causal && options_.mistakes.mask == MaskMistake::kSetToValue;
  }

  // p ← scores; −∞ where a key is not seen. Where results are rounded to few bits, the sums are the
  // textbook's to the bit: a last bit may decide where a number is rounded to.
  void scores() {
    const double scale = reference::score_scale<double>(options_, width_);
    if (by_kernel_) {
      kernels::matmul_wide(isa_, queries_, width_, time_, q_.row(0), k_.row(0), p_.row(0));
    }
    for (Index t = 0; t < queries_; ++t) {
      const auto [first, last] = seen_keys(options_, t, time_);
      double* row = p_.row(t);
      for (Index d = 0; d < width_ && !by_kernel_; ++d) {
        add_scaled(q_(t, d), k_.row(d), first, last, row);
      }
      for (Index s = first; s < last; ++s) row[s] *= scale;
      const double others = set_to_value() ? options_.mistakes.mask_value : kUnseen;
      std::fill(row, row + first, others);
      std::fill(row + last, row + time_, others);
    }
    p_ = rounded(std::move(p_), options_.numbers);
  }

  void softmax_of_rows() {
    for (Index t = 0; t < queries_; ++t) {
      const auto [first, last] =
          set_to_value() ? KeyRange{0, time_} : seen_keys(options_, t, time_);
      std::fill(p_.row(t), p_.row(t) + first, 0.0);
      std::fill(p_.row(t) + last, p_.row(t) + time_, 0.0);
      double* row = p_.row(t) + first;
      const Index keys = last - first;
      double top = kUnseen;
      for (Index s = 0; s < keys; ++s) top = std::max(top, row[s]);
      if (top == kUnseen) {
        std::fill_n(row, keys, 0.0);
        continue;
      }
      for (Index s = 0; s < keys; ++s) row[s] -= top;
      kernels::exp_wide(isa_, keys, row);
      const double sum = sum_of(keys, [&](Index s) { return row[s]; });
      for (Index s = 0; s < keys; ++s) row[s] /= sum;
    }
  }

  void softmax_of_columns() {
    std::vector<double> top(static_cast<std::size_t>(time_), kUnseen), sum(top.size(), 0.0);
    const auto each = [&](const auto& body) {
      for (Index t = 0; t < queries_; ++t) {
        for (Index s = 0; s < time_; ++s) body(p_(t, s), static_cast<std::size_t>(s));
      }
    };
    each([&](double p, std::size_t s) { top[s] = std::max(top[s], p); });
    each([&](double& p, std::size_t s) { p -= top[s] == kUnseen ? 0.0 : top[s]; });
    kernels::exp_wide(isa_, p_.size(), p_.row(0));
    each([&](double p, std::size_t s) { sum[s] += p; });
    each([&](double& p, std::size_t s) { p /= sum[s] == 0.0 ? 1.0 : sum[s]; });
  }

  Isa isa_;
  const AttentionOptions& options_;
  bool by_kernel_;  // sums need not be the textbook's to the bit
  bool in_float_;   // every step of a sum is rounded, as float32 code does
  Index time_, queries_, width_;
  Values q_, k_, v_;  // [T, D], [D, T], [T, D]
  Values p_;          // [queries, T]: scores, then probabilities
};

// --- Norms --------------------------------------------------------------------------------------

// y ← LN(x), C numbers.
void norm_row(Index width, const double* x, const reference::LayerNormParameters<double>& p,
              const reference::LayerNormOptions& options, double* y) {
  const auto& mistakes = options.mistakes;
  const double count = static_cast<double>(width);
  const double mean = mistakes.rms ? 0.0 : sum_of(width, [&](Index c) { return x[c]; }) / count;
  const double squares = sum_of(width, [&](Index c) { return (x[c] - mean) * (x[c] - mean); });
  const double variance = squares / (mistakes.ddof ? count - 1.0 : count);
  const double scale = 1.0 / reference::line_denominator(variance, options);
  const bool added = mistakes.eps_place == reference::EpsilonPlace::kAddedAfter;
  const double shift = added ? options.eps : 0.0;
  for (Index c = 0; c < width; ++c) y[c] = (x[c] - mean) * scale + shift;
  if (!p.weight.absent() && !mistakes.no_weight) {
    for (Index c = 0; c < width; ++c) y[c] *= p.weight[c];
  }
  if (!p.bias.absent() && !mistakes.no_bias) {
    for (Index c = 0; c < width; ++c) y[c] += p.bias[c];
  }
}

// --- Activations --------------------------------------------------------------------------------

// Φ from a table of it and the derivatives of φ, which are polynomials times φ: Taylor's series
// around the nearest of its points, whose rest is below 1e-16.
class NormalCdf {
 public:
  NormalCdf() {
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const double x = (static_cast<double>(i) - kHalf) / kPerUnit;
      const double density = reference::normal_density(x);
      double before = 0.0, here = 1.0, factorial = 1.0;  // Hermite's polynomials, i!
      points_[i][0] = reference::normal_cdf(x);
      for (std::size_t term = 1; term < kTerms; ++term) {
        factorial *= static_cast<double>(term);
        points_[i][term] = (term % 2 == 1 ? here : -here) * density / factorial;
        const double next = x * here - static_cast<double>(term - 1) * before;
        before = here;
        here = next;
      }
    }
  }

  double operator()(double x) const {
    const double scaled = x * kPerUnit;
    if (!(std::abs(scaled) < kHalf - 1.0)) return reference::normal_cdf(x);
    const double nearest = std::floor(scaled + 0.5);
    const auto& c = points_[static_cast<std::size_t>(nearest + kHalf)];
    const double h = x - nearest / kPerUnit;
    double sum = c[kTerms - 1];
    for (std::size_t term = kTerms - 1; term-- > 0;) sum = sum * h + c[term];
    return sum;
  }

 private:
  static constexpr double kPerUnit = 32.0, kHalf = 256.0;  // from −8 to 8
  static constexpr std::size_t kTerms = 8;
  std::array<std::array<double, kTerms>, 513> points_;
};

// y ← act(x), n numbers.
void activate(Isa isa, Activation kind, Index n, const double* x, double* y) {
  static const NormalCdf cdf;
  if (kind == Activation::kGelu) {
    for (Index i = 0; i < n; ++i) y[i] = x[i] * cdf(x[i]);
  } else if (kind == Activation::kRelu) {
    for (Index i = 0; i < n; ++i) y[i] = reference::activate(kind, x[i]);
  } else {  // x sigmoid(z)
    const bool quick = kind == Activation::kGeluQuick;
    for (Index i = 0; i < n; ++i) {
      y[i] = quick ? -1.702 * x[i] : -reference::gelu_tanh_argument(x[i]);
    }
    kernels::exp_wide(isa, n, y);
    for (Index i = 0; i < n; ++i) y[i] = x[i] / (1.0 + y[i]);
  }
}

// The same as float32 code writes it, every result rounded: 1 + erf and 1 + tanh lose digits of
// their own.
void activate_in_float(Isa isa, Activation kind, Index n, const double* x, double* y) {
  static const NormalCdf cdf;
  const auto narrow = [](double number) { return static_cast<float>(number); };
  if (kind == Activation::kRelu) return activate(isa, kind, n, x, y);
  if (kind == Activation::kGelu) {
    for (Index i = 0; i < n; ++i) {
      const float v = narrow(x[i]), z = v * 0.70710678f;
      const float erf = narrow(2.0 * cdf(static_cast<double>(z) * std::numbers::sqrt2) - 1.0);
      y[i] = 0.5f * v * (1.0f + erf);
    }
    return;
  }
  const bool quick = kind == Activation::kGeluQuick;
  for (Index i = 0; i < n; ++i) {
    const float v = narrow(x[i]), inner = 0.79788456f * (v + 0.044715f * (v * v * v));
    y[i] = quick ? -1.702f * v : -2.0f * inner;
  }
  kernels::exp_wide(isa, n, y);
  for (Index i = 0; i < n; ++i) {
    const float v = narrow(x[i]);
    const float gate = quick ? 1.0f / (1.0f + narrow(y[i])) : narrow((1.0 - y[i]) / (1.0 + y[i]));
    y[i] = quick ? v * gate : 0.5f * v * (1.0f + gate);
  }
}

}  // namespace

reference::LayerNormParameters<double> wide(const reference::LayerNormParameters<float>& p) {
  return {reference::cast<double>(p.weight), reference::cast<double>(p.bias)};
}

Values quick_norm(const Runtime& run, const Values& x,
                  const reference::LayerNormParameters<double>& p,
                  const reference::LayerNormOptions& options, bool spread) {
  constexpr Index kPiece = 16;
  reference::check_layer_norm(x, p);
  Values y(x.shape());
  run_pieces(run, (x.rows() + kPiece - 1) / kPiece, spread, [&](Index piece) {
    const Index last = std::min(x.rows(), (piece + 1) * kPiece);
    for (Index n = piece * kPiece; n < last; ++n)
      norm_row(x.columns(), x.row(n), p, options, y.row(n));
  });
  return rounded(std::move(y), options.numbers);
}

Values quick_attention(const Runtime& run, const Values& qkv, Index time,
                       const AttentionOptions& options, bool spread) {
  HeadPlace whole = reference::check_heads(qkv, options.heads, options.mistakes);
  whole.batch = qkv.rows() / time;
  whole.time = time;
  Values out(reference::with_columns(qkv, whole.width()));
  run_pieces(run, whole.batch * whole.heads, spread, [&](Index i) {
    HeadPlace place = whole;
    place.b = i / whole.heads;
    place.h = i % whole.heads;
    const Values o = Head(run.isa(), qkv, place, options, place.time).output();
    if (options.mistakes.no_merge_transpose) {
      put_merged(o, place, options.mistakes, out);
      return;
    }
    for (Index t = 0; t < place.time; ++t) {
      std::copy_n(o.row(t), place.head_width,
                  out.row(place.b * place.time + t) + place.h * place.head_width);
    }
  });
  return out;
}

Values quick_attention_start(const Runtime& run, const Values& qkv, const AttentionOptions& options,
                             Index rows) {
  const auto& mistakes = options.mistakes;
  HeadPlace place = reference::check_heads(qkv, options.heads, mistakes);
  Values out({rows, place.width()});
  if (mistakes.softmax_over_queries || mistakes.no_merge_transpose) {
    const Values all = quick_attention(run, qkv, qkv.rows(), options, false);
    std::copy_n(all.row(0), out.size(), out.row(0));
    return out;
  }
  for (place.h = 0; place.h < place.heads; ++place.h) {
    const Values o = Head(run.isa(), qkv, place, options, rows).output();
    for (Index t = 0; t < rows; ++t) {
      std::copy_n(o.row(t), place.head_width, out.row(t) + place.h * place.head_width);
    }
  }
  return out;
}

Values quick_activation(const Runtime& run, const Values& x,
                        const reference::ActivationOptions& options, bool spread) {
  constexpr Index kPiece = 4096;
  Values y(x.shape());
  const Values* from = &x;
  Values input;
  if (options.input_numbers != Numbers::kExact) {
    input = rounded(x, options.input_numbers);
    from = &input;
  }
  run_pieces(run, (x.size() + kPiece - 1) / kPiece, spread, [&](Index i) {
    const Index first = i * kPiece, count = std::min(kPiece, x.size() - first);
    double* out = y.row(0) + first;
    const bool in_float = options.numbers == Numbers::kFloat32;
    (in_float ? activate_in_float : activate)(run.isa(), options.kind, count, from->row(0) + first,
                                              out);
    for (Index k = 0; k < count && options.numbers != Numbers::kExact; ++k) {
      out[k] = reference::round_to(out[k], options.numbers);
    }
  });
  return y;
}

}  // namespace prenorm
