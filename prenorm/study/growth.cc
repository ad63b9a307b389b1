#include "prenorm/study/growth.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/philox.h"
#include "prenorm/base/portable_math.h"
#include "prenorm/kernels/layer_norm.h"
#include "prenorm/reference/layer_norm.h"
#include "prenorm/reference/linear.h"
#include "prenorm/study/kernel_memory.h"

namespace prenorm {
namespace {

using Values = reference::Tensor<double>;

double rms(const Values& x) {
  double sum = 0.0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

double rms(ConstMatrix x) {
  double sum = 0.0;
  for (Index row = 0; row < x.dim(0); ++row) {
    for (Index c = 0; c < x.dim(1); ++c) {
      sum += static_cast<double>(x[row][c]) * static_cast<double>(x[row][c]);
    }
  }
  return std::sqrt(sum / static_cast<double>(x.dim(0) * x.dim(1)));
}

// Normal numbers, a function of (seed, which).
Values normal(const std::vector<Index>& shape, double deviation, std::uint64_t seed,
              std::uint32_t which) {
  const PhiloxKey key = RandomStream{.seed = seed, .step = which}.key();
  Values out(shape);
  for (Index i = 0; i < out.size(); i += 2) {
    const auto at = static_cast<std::uint64_t>(i);
    const auto pair = normal_pair(random_double(key, at), random_double(key, at + 1));
    out[i] = deviation * pair[0];
    if (i + 1 < out.size()) out[i + 1] = deviation * pair[1];
  }
  return out;
}

// --- Stacks of the textbook ----------------------------------------------------------------------

// One kind of stack: how a layer is made of its function f, and of f's size.
struct Kind {
  std::string name, formula, meaning;
  bool residual, norm_before, norm_after;
};

std::vector<Kind> kinds(const StackOptions& options) {
  const std::string gain = fmt::format("{:g}", options.gain);
  return {
      {"no norm", "f(x)",
       fmt::format("Each layer multiplies by {}: after three layers the numbers are {:g} times as "
                   "large, and gradients grow as fast on the way back. No learning rate suits both "
                   "ends.",
                   gain, std::pow(options.gain, 3.0)),
       false, false, false},
      {"norm after each layer", "LN(f(x))",
       fmt::format("The norm divides by what the layer multiplied with: every layer reads numbers "
                   "of size 1, whatever the gain of {}. Nothing but the last layer's output is "
                   "left of the input, for there is no residual connection.",
                   gain),
       false, false, true},
      {"pre-norm", "x + f(LN(x))",
       "Only what f reads is reset to size 1; the stream itself is not, it grows like √(1 + l) as "
       "each layer adds to it. The identity carries the gradient past every norm: the first layer "
       "gets √(1 + l) times what the last gets, not gain to the power of l.",
       true, true, false},
      {"post-norm", "LN(x + f(x))",
       "The stream is reset to size 1 after every addition, so the input's share of it halves in "
       "variance with each layer. The gradient passes every one of the norms on its way back.",
       true, false, true},
  };
}

struct StackWeights {
  Values input;           // [N, C]
  std::vector<Values> w;  // one a layer, of gain 1
  Values gradient;        // [N, C]: of the output
};

GrowthCurve grow(const Kind& kind, const StackOptions& options, const StackWeights& weights) {
  const auto layers = static_cast<std::size_t>(options.layers);
  const double gain = kind.residual ? 1.0 : options.gain;
  const auto scaled = [&](Values x) {
    for (double& value : x) value *= gain;
    return x;
  };
  GrowthCurve curve{kind.name, kind.formula, kind.meaning, {}, {}, {}, {}};
  std::vector<Values> x{weights.input}, sums;  // sums[l]: what the norm after layer l is applied to
  for (std::size_t l = 0; l < layers; ++l) {
    const Values in = kind.norm_before ? reference::layer_norm(x[l], {}) : x[l];
    Values y = scaled(reference::linear(in, {weights.w[l], {}}));
    if (kind.residual) y = reference::add(x[l], y);
    curve.branch.push_back(rms(in));
    sums.push_back(y);
    x.push_back(kind.norm_after ? reference::layer_norm(y, {}) : y);
  }
  Values d = weights.gradient;
  std::vector<double> backward{rms(d)};
  for (std::size_t l = layers; l-- > 0;) {
    if (kind.norm_after) d = reference::layer_norm_backward(d, sums[l], {}).dx;
    const Values in = kind.norm_before ? reference::layer_norm(x[l], {}) : x[l];
    Values branch = scaled(reference::linear_backward(d, in, {weights.w[l], {}}).dx);
    if (kind.norm_before) branch = reference::layer_norm_backward(branch, x[l], {}).dx;
    d = kind.residual ? reference::add(d, branch) : branch;
    backward.push_back(rms(d));
  }
  for (const Values& stream : x) curve.forward.push_back(rms(stream));
  curve.backward.assign(backward.rbegin(), backward.rend());
  return curve;
}

void check(const StackOptions& options) {
  const auto at_least_one = [](const char* name, Index value) {
    if (value < 1) {
      throw ConfigError(fmt::format("growth: {}: expected at least 1, found {}", name, value));
    }
  };
  at_least_one("layers", options.layers);
  at_least_one("width", options.width);
  at_least_one("tokens", options.tokens);
  if (!(options.gain > 0.0) || !std::isfinite(options.gain)) {
    throw ConfigError(
        fmt::format("growth: gain: expected a positive number, found {}", options.gain));
  }
}

std::string meaning_of(NormPlacement norm) {
  if (norm == NormPlacement::kPre) {
    return "Blocks add to the stream and nothing takes away, so it grows with the depth; the norm "
           "before each sub-layer resets only what that sub-layer reads. The gradient flows back "
           "along the additions.";
  }
  return "A norm follows each addition, so every block gets and leaves a stream of the norms' own "
         "size. The gradient passes two norms a block on its way back.";
}

}  // namespace

std::vector<GrowthCurve> stack_growth(const StackOptions& options) {
  check(options);
  const std::vector<Index> rows{options.tokens, options.width};
  const double of_gain_1 = 1.0 / std::sqrt(static_cast<double>(options.width));
  StackWeights weights{normal(rows, 1.0, options.seed, 0), {}, normal(rows, 1.0, options.seed, 1)};
  for (Index l = 0; l < options.layers; ++l) {
    weights.w.push_back(normal({options.width, options.width}, of_gain_1, options.seed,
                               static_cast<std::uint32_t>(2 + l)));
  }
  std::vector<GrowthCurve> curves;
  for (const Kind& kind : kinds(options)) curves.push_back(grow(kind, options, weights));
  return curves;
}

std::vector<double> square_root_growth(Index layers) {
  std::vector<double> out;
  for (Index l = 0; l <= layers; ++l) out.push_back(std::sqrt(1.0 + static_cast<double>(l)));
  return out;
}

GrowthCurve model_growth(const Runtime& run, Gpt& model, const TokenBatch& batch) {
  const GptConfig& config = model.config();
  const bool pre = config.norm == NormPlacement::kPre;
  GrowthCurve curve;
  curve.name = pre ? "pre-norm" : "post-norm";
  curve.formula =
      pre ? "h = x + MHA(LN1(x)), y = h + FFN(LN2(h))" : "h = LN1(x + MHA(x)), y = LN2(h + FFN(h))";
  curve.meaning = meaning_of(config.norm);
  curve.parameters.resize(static_cast<std::size_t>(config.n_layer));
  const auto in_block = [&](Index layer, const char* name) {
    return model.parameters().find(fmt::format("transformer.h.{}.{}", layer, name));
  };
  FloatMatrix normed(batch.inputs.dim(0) * batch.inputs.dim(1), config.n_embd);
  GptObserver observer;
  observer.on_block = [&](Index layer, ConstMatrix x, const auto&, ConstMatrix) {
    curve.forward.push_back(rms(x));
    if (!pre) return curve.branch.push_back(rms(x));
    const Parameter* bias = in_block(layer, "ln_1.bias");
    kernels::layer_norm_forward(run, x, in_block(layer, "ln_1.weight")->vector(),
                                bias == nullptr ? ConstVector() : bias->vector(),
                                config.layer_norm_epsilon, normed.view(), {}, {});
    curve.branch.push_back(rms(std::as_const(normed).view()));
  };
  observer.on_final_norm = [&](ConstMatrix x, ConstMatrix) { curve.forward.push_back(rms(x)); };
  observer.on_gradient = [&](Index, ConstMatrix d) {
    curve.backward.insert(curve.backward.begin(), rms(d));
  };
  Gpt::Workspace work = model.make_workspace(batch.inputs.dim(0), batch.inputs.dim(1));
  model.parameters().zero_grad();
  const double tokens = static_cast<double>(batch.inputs.dim(0) * batch.inputs.dim(1));
  model.forward_backward(run, work, batch, 1.0 / tokens, {}, &observer);
  for (Index l = 0; l < config.n_layer; ++l) {
    curve.parameters[static_cast<std::size_t>(l)] = std::sqrt(model.squared_gradient(l));
  }
  model.parameters().zero_grad();
  return curve;
}

}  // namespace prenorm
