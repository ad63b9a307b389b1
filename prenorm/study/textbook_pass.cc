#include "prenorm/study/textbook_pass.h"

#include <utility>

#include "prenorm/reference/cross_attention.h"
#include "prenorm/reference/cross_entropy.h"
#include "prenorm/reference/transformer_block.h"

namespace prenorm {
namespace {

using Block = reference::BlockParameters<double>;
using Gradient = ParameterValues;

Values find(const ParameterValues& map, const std::string& name) {
  const auto it = map.find(name);
  return it == map.end() ? Values() : it->second;
}

// Keeps the gradient of a parameter that is there.
void keep(LayerOutcome& out, const std::string& name, const Values& gradient) {
  if (!gradient.absent()) out.gradients[name] = gradient;
}

reference::LayerNormParameters<double> norm_parameters(const LayerPass& pass,
                                                       const std::string& name) {
  return {find(pass.parameters, name + ".weight"), find(pass.parameters, name + ".bias")};
}

reference::LayerNormOptions norm_options(const LayerPass& pass) {
  reference::LayerNormOptions options;
  options.eps = pass.options.eps;
  return options;
}

reference::LinearParameters<double> linear_parameters(const LayerPass& pass,
                                                      const std::string& name) {
  return {find(pass.parameters, name + ".weight"), find(pass.parameters, name + ".bias")};
}

reference::BlockOptions block_options(const LayerPass& pass) {
  reference::BlockOptions options;
  options.norm = textbook_norm(pass.options.norm);
  options.ln_1 = options.ln_2 = norm_options(pass);
  options.attn.core.heads = pass.options.heads;
  options.attn.core.causal = pass.options.causal;
  options.attn.core.scale = pass.options.scale;
  options.mlp.act.kind = textbook_activation(pass.options.activation);
  return options;
}

Block block_parameters(const LayerPass& pass, const std::string& prefix) {
  Block p;
  reference::for_each_block_parameter(p, prefix, [&](const std::string& name, Values& tensor) {
    tensor = find(pass.parameters, name);
  });
  return p;
}

void keep_block(LayerOutcome& out, const Block& gradient, const std::string& prefix) {
  reference::for_each_block_parameter(
      gradient, prefix, [&](const std::string& name, const Values& d) { keep(out, name, d); });
}

LayerOutcome layer_norm(const LayerPass& pass) {
  const auto p = norm_parameters(pass, "ln");
  LayerOutcome out;
  out.output = reference::layer_norm(pass.input, p, norm_options(pass));
  if (pass.grad_output.absent()) return out;
  auto [dx, dp] =
      reference::layer_norm_backward(pass.grad_output, pass.input, p, norm_options(pass));
  out.dinput = std::move(dx);
  keep(out, "ln.weight", dp.weight);
  keep(out, "ln.bias", dp.bias);
  return out;
}

LayerOutcome linear(const LayerPass& pass) {
  const auto p = linear_parameters(pass, "linear");
  LayerOutcome out;
  out.output = reference::linear(pass.input, p);
  if (pass.grad_output.absent()) return out;
  auto [dx, dp] = reference::linear_backward(pass.grad_output, pass.input, p);
  out.dinput = std::move(dx);
  keep(out, "linear.weight", dp.weight);
  keep(out, "linear.bias", dp.bias);
  return out;
}

LayerOutcome activation(const LayerPass& pass) {
  reference::ActivationOptions options;
  options.kind = textbook_activation(pass.options.activation);
  LayerOutcome out;
  out.output = reference::activation(pass.input, options);
  if (pass.grad_output.absent()) return out;
  out.dinput = reference::activation_backward(pass.grad_output, pass.input, options);
  return out;
}

// dx = y ⊙ (dy − Σ y dy)
LayerOutcome softmax(const LayerPass& pass) {
  LayerOutcome out;
  out.output = reference::softmax(pass.input);
  if (pass.grad_output.absent()) return out;
  const Values &y = out.output, &dy = pass.grad_output;
  out.dinput = Values(y.shape());
  for (Index n = 0; n < y.rows(); ++n) {
    double mean = 0.0;
    for (Index c = 0; c < y.columns(); ++c) mean += y(n, c) * dy(n, c);
    for (Index c = 0; c < y.columns(); ++c) out.dinput(n, c) = y(n, c) * (dy(n, c) - mean);
  }
  return out;
}

LayerOutcome feed_forward(const LayerPass& pass) {
  const reference::FeedForwardParameters<double> p{linear_parameters(pass, "mlp.c_fc"),
                                                   linear_parameters(pass, "mlp.c_proj")};
  const reference::FeedForwardOptions options = block_options(pass).mlp;
  LayerOutcome out;
  out.output = reference::feed_forward(pass.input, p, options);
  if (pass.grad_output.absent()) return out;
  auto [dx, dp] = reference::feed_forward_backward(pass.grad_output, pass.input, p, options);
  out.dinput = std::move(dx);
  keep(out, "mlp.c_fc.weight", dp.c_fc.weight);
  keep(out, "mlp.c_fc.bias", dp.c_fc.bias);
  keep(out, "mlp.c_proj.weight", dp.c_proj.weight);
  keep(out, "mlp.c_proj.bias", dp.c_proj.bias);
  return out;
}

// --- Attention ----------------------------------------------------------------------------------

LayerOutcome self_attention(const LayerPass& pass) {
  const reference::AttentionParameters<double> p{linear_parameters(pass, "attn.c_attn"),
                                                 linear_parameters(pass, "attn.c_proj")};
  const reference::MultiheadAttentionOptions options = block_options(pass).attn;
  LayerOutcome out;
  out.output = reference::multihead_attention(pass.input, p, options, pass.mask);
  if (pass.grad_output.absent()) return out;
  auto [dx, dp] =
      reference::multihead_attention_backward(pass.grad_output, pass.input, p, options, pass.mask);
  out.dinput = std::move(dx);
  keep(out, "attn.c_attn.weight", dp.c_attn.weight);
  keep(out, "attn.c_attn.bias", dp.c_attn.bias);
  keep(out, "attn.c_proj.weight", dp.c_proj.weight);
  keep(out, "attn.c_proj.bias", dp.c_proj.bias);
  return out;
}

using Projected = reference::QueryKeyValue<double>;

LayerOutcome scaled_dot_product_attention(const LayerPass& pass) {
  const Projected in{pass.input, pass.key, pass.value};
  reference::AttentionOptions options = block_options(pass).attn.core;
  options.heads = 1;
  const reference::CrossAttention<double> attention(in, options, pass.mask);
  LayerOutcome out;
  out.output = attention.forward();
  if (pass.grad_output.absent()) return out;
  Projected d = attention.backward(pass.grad_output);
  out.dinput = std::move(d.q);
  out.dkey = std::move(d.k);
  out.dvalue = std::move(d.v);
  return out;
}

// A third of the packed projection.
reference::LinearParameters<double> third(const reference::LinearParameters<double>& packed,
                                          Index which) {
  const Index width = packed.weight.columns() / 3;
  reference::LinearParameters<double> p;
  p.weight = Values({packed.weight.rows(), width});
  for (Index i = 0; i < p.weight.rows(); ++i) {
    for (Index o = 0; o < width; ++o) p.weight(i, o) = packed.weight(i, which * width + o);
  }
  if (packed.bias.absent()) return p;
  p.bias = Values({width});
  for (Index o = 0; o < width; ++o) p.bias[o] = packed.bias[which * width + o];
  return p;
}

void put_third(const reference::LinearParameters<double>& p, Index which,
               reference::LinearParameters<double>& packed) {
  const Index width = p.weight.columns();
  for (Index i = 0; i < p.weight.rows(); ++i) {
    for (Index o = 0; o < width; ++o) packed.weight(i, which * width + o) = p.weight(i, o);
  }
  for (Index o = 0; o < p.bias.size(); ++o) packed.bias[which * width + o] = p.bias[o];
}

LayerOutcome cross_attention(const LayerPass& pass) {
  const auto c_attn = linear_parameters(pass, "attn.c_attn");
  const auto c_proj = linear_parameters(pass, "attn.c_proj");
  const auto wq = third(c_attn, 0), wk = third(c_attn, 1), wv = third(c_attn, 2);
  const Projected in{reference::linear(pass.input, wq), reference::linear(pass.key, wk),
                     reference::linear(pass.value, wv)};
  const reference::CrossAttention<double> attention(in, block_options(pass).attn.core, pass.mask);
  const Values attended = attention.forward();
  LayerOutcome out;
  out.output = reference::linear(attended, c_proj);
  if (pass.grad_output.absent()) return out;

  auto [dattended, dc_proj] = reference::linear_backward(pass.grad_output, attended, c_proj);
  const Projected d = attention.backward(dattended);
  auto [dinput, dwq] = reference::linear_backward(d.q, pass.input, wq);
  auto [dkey, dwk] = reference::linear_backward(d.k, pass.key, wk);
  auto [dvalue, dwv] = reference::linear_backward(d.v, pass.value, wv);
  out.dinput = std::move(dinput);
  out.dkey = std::move(dkey);
  out.dvalue = std::move(dvalue);
  reference::LinearParameters<double> dc_attn{zeros_like(c_attn.weight), zeros_like(c_attn.bias)};
  put_third(dwq, 0, dc_attn);
  put_third(dwk, 1, dc_attn);
  put_third(dwv, 2, dc_attn);
  keep(out, "attn.c_attn.weight", dc_attn.weight);
  keep(out, "attn.c_attn.bias", dc_attn.bias);
  keep(out, "attn.c_proj.weight", dc_proj.weight);
  keep(out, "attn.c_proj.bias", dc_proj.bias);
  return out;
}

// --- Blocks -------------------------------------------------------------------------------------

LayerOutcome stack(const LayerPass& pass) {
  const auto norm = norm_parameters(pass, "ln_f");
  const bool has_norm = !norm.weight.absent() || !norm.bias.absent();
  std::vector<Values> x{pass.input};  // x[l] goes into block l
  std::vector<Block> blocks;
  std::vector<reference::BlockOptions> options(static_cast<std::size_t>(pass.layers),
                                               block_options(pass));
  std::vector<std::string> prefixes;
  for (Index l = 0; l < pass.layers; ++l) {
    prefixes.push_back("h." + std::to_string(l) + ".");
    blocks.push_back(block_parameters(pass, prefixes.back()));
    reference::BlockOptions& of_layer = options[static_cast<std::size_t>(l)];
    of_layer.attn.core.scale = attention_scale(pass, l);
    x.push_back(reference::transformer_block(x.back(), blocks.back(), of_layer, pass.mask));
  }
  LayerOutcome out;
  out.output = has_norm ? reference::layer_norm(x.back(), norm, norm_options(pass)) : x.back();
  if (pass.grad_output.absent()) return out;

  Values dx = pass.grad_output;
  if (has_norm) {
    auto [d, dnorm] = reference::layer_norm_backward(dx, x.back(), norm, norm_options(pass));
    dx = std::move(d);
    keep(out, "ln_f.weight", dnorm.weight);
    keep(out, "ln_f.bias", dnorm.bias);
  }
  for (std::size_t l = blocks.size(); l-- > 0;) {
    auto [d, dblock] =
        reference::transformer_block_backward(dx, x[l], blocks[l], options[l], pass.mask);
    dx = std::move(d);
    keep_block(out, dblock, prefixes[l]);
  }
  out.dinput = std::move(dx);
  return out;
}

// --- Tokens -------------------------------------------------------------------------------------

LayerOutcome embedding(const LayerPass& pass) {
  const Values weight = find(pass.parameters, "wte.weight");
  const Index width = weight.columns();
  LayerOutcome out;
  out.output = Values({static_cast<Index>(pass.ids.size()), width});
  for (Index n = 0; n < out.output.rows(); ++n) {
    const TokenId id = pass.ids[static_cast<std::size_t>(n)];
    for (Index c = 0; c < width; ++c) out.output(n, c) = weight(id, c);
  }
  if (pass.grad_output.absent()) return out;
  Values d = zeros_like(weight);
  for (Index n = 0; n < out.output.rows(); ++n) {
    const TokenId id = pass.ids[static_cast<std::size_t>(n)];
    for (Index c = 0; c < width; ++c) d(id, c) += pass.grad_output(n, c);
  }
  keep(out, "wte.weight", d);
  return out;
}

LayerOutcome cross_entropy(const LayerPass& pass) {
  const reference::Tokens targets({static_cast<Index>(pass.ids.size())}, pass.ids);
  LayerOutcome out;
  out.output = reference::cross_entropy(pass.input, targets, -1, pass.options.label_smoothing);
  if (pass.grad_output.absent()) return out;
  out.dinput =
      reference::cross_entropy_backward(pass.input, targets, 1.0, -1, pass.options.label_smoothing);
  for (Index n = 0; n < out.dinput.rows(); ++n) {
    for (Index v = 0; v < out.dinput.columns(); ++v) out.dinput(n, v) *= pass.grad_output[n];
  }
  return out;
}

}  // namespace

reference::Activation textbook_activation(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return reference::Activation::kRelu;
    case Activation::kGelu:
      return reference::Activation::kGelu;
    case Activation::kGeluTanh:
      break;
  }
  return reference::Activation::kGeluTanh;
}

reference::NormPlacement textbook_norm(NormPlacement norm) {
  return norm == NormPlacement::kPre ? reference::NormPlacement::kPre
                                     : reference::NormPlacement::kPost;
}

LayerOutcome textbook_pass(const LayerPass& pass) {
  switch (pass.layer) {
    case ApplyLayer::kLayerNorm:
      return layer_norm(pass);
    case ApplyLayer::kFeedForward:
      return feed_forward(pass);
    case ApplyLayer::kAttention:
      return pass.key.absent() ? self_attention(pass) : cross_attention(pass);
    case ApplyLayer::kBlock:
    case ApplyLayer::kStack:
      return stack(pass);
    case ApplyLayer::kLinear:
      return linear(pass);
    case ApplyLayer::kActivation:
      return activation(pass);
    case ApplyLayer::kSoftmax:
      return softmax(pass);
    case ApplyLayer::kScaledDotProductAttention:
      return scaled_dot_product_attention(pass);
    case ApplyLayer::kEmbedding:
      return embedding(pass);
    case ApplyLayer::kCrossEntropy:
      return cross_entropy(pass);
    case ApplyLayer::kGpt:
      break;
  }
  throw ConfigError("textbook pass: expected a layer, found a model");
}

}  // namespace prenorm
