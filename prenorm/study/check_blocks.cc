#include "prenorm/study/check_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "prenorm/base/error.h"
#include "prenorm/kernels/embedding.h"
#include "prenorm/study/check_gradients.h"
#include "prenorm/study/gpt_pass.h"
#include "prenorm/study/kernel_memory.h"
#include "prenorm/study/model_crop.h"

namespace prenorm {
namespace {

using DualNumber = reference::Dual<double>;

constexpr Index kMostBlocks = 12;
constexpr Index kTokens = 8;
// A normalised row is rounded to floats, each by at most 2⁻²⁴ of itself, and Σ|x̂| ≤ C: so much of
// its mean, twice as much of its variance. Twice that again for the row's own statistics.
constexpr double kMeanRounding = 0x1p-23, kVarianceRounding = 0x1p-22;

struct RowMoments {
  double mean = 0.0, variance = 0.0;
};

RowMoments moments_of(const double* row, Index count) {
  RowMoments m;
  for (Index c = 0; c < count; ++c) m.mean += row[c];
  m.mean /= static_cast<double>(count);
  for (Index c = 0; c < count; ++c) m.variance += (row[c] - m.mean) * (row[c] - m.mean);
  m.variance /= static_cast<double>(count);
  return m;
}

double as_float(double x) { return static_cast<double>(static_cast<float>(x)); }

// The parameters of a part of the block ("attn.", "mlp.") or of one norm, as a layer alone has
// them.
ParameterValues part_of(const ParameterValues& block, const std::string& from,
                        const std::string& to) {
  ParameterValues out;
  for (const auto& [name, values] : block) {
    if (name.starts_with(from)) out[to + name.substr(from.size())] = values;
  }
  return out;
}

class Blocks {
 public:
  explicit Blocks(const CheckContext& context)
      : context_(context),
        config_(context.model.config()),
        crop_(crop_size(config_)),
        time_(std::min(config_.block_size, kTokens)) {}

  std::vector<Property> run();

 private:
  Values embedded() const;
  ParameterValues block_parameters(Index layer) const;
  LayerPass pass_of(ApplyLayer kind, const Values& input, ParameterValues parameters) const;
  LayerPass block_pass(Index layer, const Values& input, ParameterValues parameters) const;
  Values applied(const LayerPass& pass) const {
    return context_.seams.layer(context_.run, pass).output;
  }

  void check_identity(Index layer, const Values& x, ParameterValues parameters);
  void check_gradients(Index layer, const Values& x, const ParameterValues& parameters);
  void check_norms(Index layer, const Values& x, const ParameterValues& parameters);
  void check_norm(const Values& x);
  Values shrunk(const Values& x) const;
  std::vector<Property> properties() const;

  const CheckContext& context_;
  const GptConfig& config_;
  CropSize crop_;
  Index time_;
  Index blocks_ = 0;
  Index moved_ = 0, compared_ = 0;  // of the identity
  GradientError gradient_;          // the worst beside its bound
  Index gradient_layer_ = 0;
  double mean_ = 0.0, variance_ = 0.0;  // the largest error
  Index rows_ = 0;
};

Values Blocks::embedded() const {
  const std::vector<TokenId> tokens = random_tokens(time_, config_.vocab_size, context_.seed);
  const auto matrix = [&](const char* name) {
    return context_.model.parameters().find(name)->matrix();
  };
  FloatMatrix x(time_, config_.n_embd);
  kernels::embedding_forward(context_.run, {tokens.data(), {1, time_}},
                             matrix("transformer.wte.weight"), matrix("transformer.wpe.weight"), 0,
                             x.view());
  return x.values({1, time_, config_.n_embd});
}

ParameterValues Blocks::block_parameters(Index layer) const {
  const std::string prefix = fmt::format("transformer.h.{}.", layer);
  ParameterValues out;
  for (const Parameter& p : context_.model.parameters()) {
    if (!p.name.starts_with(prefix)) continue;
    out[p.name.substr(prefix.size())] = Values(p.shape, {p.value.begin(), p.value.end()});
  }
  return out;
}

LayerPass Blocks::pass_of(ApplyLayer kind, const Values& input, ParameterValues parameters) const {
  LayerPass pass;
  pass.layer = kind;
  pass.options.heads = config_.n_head;
  pass.options.norm = config_.norm;
  pass.options.activation = config_.activation;
  pass.options.eps = config_.layer_norm_epsilon;
  pass.input = input;
  pass.parameters = std::move(parameters);
  return pass;
}

LayerPass Blocks::block_pass(Index layer, const Values& input, ParameterValues parameters) const {
  LayerPass pass = pass_of(ApplyLayer::kBlock, input, part_of(parameters, "", "h.0."));
  pass.scales = {config_.attention_scale(layer)};
  return pass;
}

std::vector<Property> Blocks::run() {
  const Index layers = config_.n_layer, wanted = std::min(layers, kMostBlocks);
  Values x = embedded();
  check_norm(shrunk(x));
  for (Index layer = 0; layer < layers; ++layer) {
    const ParameterValues parameters = block_parameters(layer);
    if (blocks_ * std::max<Index>(1, layers - 1) <= layer * std::max<Index>(1, wanted - 1)) {
      context_.stage(fmt::format("block {} of {}", layer + 1, layers));
      check_identity(layer, x, parameters);
      check_norms(layer, x, parameters);
      check_gradients(layer, x, parameters);
      ++blocks_;
    }
    if (layer + 1 < layers || config_.norm == NormPlacement::kPre)
      x = applied(block_pass(layer, x, parameters));
  }
  check_norm(x);
  return properties();
}

// Pre-norm: x + 0 + 0. Post-norm has a norm after each sum: LN2(LN1(x)).
void Blocks::check_identity(Index layer, const Values& x, ParameterValues parameters) {
  Values expected = x;
  if (config_.norm == NormPlacement::kPost) {
    for (const char* norm : {"ln_1.", "ln_2."}) {
      expected = applied(pass_of(ApplyLayer::kLayerNorm,
                                 expected.reshaped({expected.rows(), expected.columns()}),
                                 part_of(parameters, norm, "ln.")));
    }
  }
  for (auto& [name, values] : parameters) {
    if (name.find("c_proj") != std::string::npos) std::ranges::fill(values, 0.0);
  }
  const Values y = applied(block_pass(layer, x, std::move(parameters)));
  for (Index i = 0; i < y.size(); ++i) moved_ += !(y[i] == expected[i]);
  compared_ += y.size();
}

void Blocks::check_norms(Index layer, const Values& x, const ParameterValues& parameters) {
  const bool pre = config_.norm == NormPlacement::kPre;
  const auto normed = [&](const Values& rows, const char* norm) {
    return applied(pass_of(ApplyLayer::kLayerNorm, rows.reshaped({rows.rows(), rows.columns()}),
                           part_of(parameters, norm, "ln.")));
  };
  const auto attention = [&](const Values& rows) {
    LayerPass pass = pass_of(ApplyLayer::kAttention, rows.reshaped({1, time_, config_.n_embd}),
                             part_of(parameters, "attn.", "attn."));
    pass.options.scale = config_.attention_scale(layer);
    return reference::add(x, applied(pass).reshaped(x.shape()));
  };
  if (pre) {
    check_norm(x);
    check_norm(attention(normed(x, "ln_1.")));
    return;
  }
  const Values sum1 = attention(x);
  check_norm(sum1);
  const Values h = normed(sum1, "ln_1.").reshaped({time_, config_.n_embd});
  const Values mlp =
      applied(pass_of(ApplyLayer::kFeedForward, h, part_of(parameters, "mlp.", "mlp.")));
  check_norm(reference::add(h, mlp));
}

// Rows without γ and β.
void Blocks::check_norm(const Values& x) {
  const Index width = x.columns();
  Values in({x.rows(), width}, x.values());
  for (double& number : in) number = as_float(number);
  const Values out = applied(pass_of(ApplyLayer::kLayerNorm, in, {}));
  for (Index n = 0; n < in.rows(); ++n) {
    const double variance = moments_of(in.row(n), width).variance;
    const RowMoments found = moments_of(out.row(n), width);
    const double expected = variance / (variance + config_.layer_norm_epsilon);
    // Written so that a NaN is kept.
    if (!(std::abs(found.mean) <= mean_)) mean_ = std::abs(found.mean);
    const double error = std::abs(found.variance - expected);
    if (!(error <= variance_)) variance_ = error;
    ++rows_;
  }
}

// The rows shrunk until their variance is ε, where its place in the formula shows: the variance
// after the norm is 1/2.
Values Blocks::shrunk(const Values& x) const {
  Values out = x;
  for (Index n = 0; n < x.rows(); ++n) {
    const double variance = moments_of(x.row(n), x.columns()).variance;
    if (!(variance > 0.0)) continue;
    const double factor = std::sqrt(config_.layer_norm_epsilon / variance);
    for (Index c = 0; c < x.columns(); ++c) out(n, c) *= factor;
  }
  return out;
}

void Blocks::check_gradients(Index layer, const Values& x, const ParameterValues& parameters) {
  const Index width = crop_.width;
  Values input({1, time_, width});
  for (Index n = 0; n < time_; ++n) std::copy_n(x.row(n), width, input.row(n));
  ParameterValues cropped = parameters;
  if (!crop_.same_block(config_)) {
    for (auto& [name, values] : cropped) {
      const std::string full = fmt::format("transformer.h.{}.{}", layer, name);
      values = corner(*context_.model.parameters().find(full), crop_);
    }
  }
  LayerPass pass = block_pass(layer, input, cropped);
  pass.options.heads = crop_.heads;
  const std::uint64_t seed = context_.seed + static_cast<std::uint64_t>(layer) * 100;
  pass.grad_output = reference::random_tensor(input.shape(), seed);
  const LayerOutcome found = context_.seams.layer(context_.run, pass);

  std::vector<Values> at{input}, gradients{found.dinput};
  std::vector<std::string> names;
  for (const auto& [name, values] : cropped) {
    names.push_back(name);
    at.push_back(values);
    gradients.push_back(found.gradients.at("h.0." + name));
  }
  auto options = textbook_options(config_).h[static_cast<std::size_t>(layer)];
  options.attn.core.heads = crop_.heads;
  const DualFunction block = [&](const std::vector<DualTensor>& in) {
    reference::BlockParameters<DualNumber> p;
    reference::for_each_block_parameter(p, "", [&](const std::string& name, auto& tensor) {
      const auto it = std::ranges::find(names, name);
      if (it != names.end()) tensor = in[static_cast<std::size_t>(it - names.begin()) + 1];
    });
    return reference::transformer_block(in[0], p, options);
  };
  const GradientError error = gradient_error(block, at, pass.grad_output, gradients, seed + 10);
  if (!(error.relative / error.bound <= gradient_.relative / gradient_.bound)) {
    gradient_ = error;
    gradient_layer_ = layer;
  }
}

std::vector<Property> Blocks::properties() const {
  const std::string blocks = blocks_ == config_.n_layer
                                 ? counted(blocks_, "block")
                                 : fmt::format("{} of {} blocks", blocks_, config_.n_layer);
  Property identity, gradients, mean, variance;
  identity.name = "identity";
  identity.claim = config_.norm == NormPlacement::kPre
                       ? "a block with zeroed sub-layers changes nothing"
                       : "a block with zeroed sub-layers is its two norms";
  identity.measure = "numbers that differ";
  identity.measured = static_cast<double>(moved_);
  identity.scope = fmt::format("of {}; {}, {}", compared_, blocks, counted(time_, "token"));
  gradients.name = "gradients";
  gradients.claim = "the gradients of a block agree with dual numbers";
  gradients.measure = "relative error";
  gradients.measured = gradient_.relative;
  gradients.bound = gradient_.bound;
  gradients.scope =
      fmt::format("the worst of {}, h.{}{}; {}", blocks, gradient_layer_,
                  crop_.same_block(config_) ? std::string()
                                            : fmt::format(", its corner of width {}", crop_.width),
                  counted(time_, "token"));
  mean.name = "norm-mean";
  mean.claim = "normalised rows have mean 0";
  mean.measure = "largest |mean|";
  mean.measured = mean_;
  mean.bound = kMeanRounding;
  variance.name = "norm-variance";
  variance.claim = "normalised rows have variance σ²/(σ² + ε), population variance";
  variance.measure = "largest error";
  variance.measured = variance_;
  variance.bound = kVarianceRounding;
  mean.scope = variance.scope =
      fmt::format("{} rows of the stream, ε {}", rows_, config_.layer_norm_epsilon);
  return {identity, gradients, mean, variance};
}

}  // namespace

std::vector<Property> check_blocks(const CheckContext& context) { return Blocks(context).run(); }

}  // namespace prenorm
