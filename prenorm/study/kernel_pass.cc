#include "prenorm/study/kernel_pass.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/embedding.h"
#include "prenorm/layers/feed_forward.h"
#include "prenorm/layers/layer_norm.h"
#include "prenorm/study/kernel_attention.h"
#include "prenorm/study/kernel_memory.h"

namespace prenorm {
namespace {

// --- Layers of rows -----------------------------------------------------------------------------

template <Layer L>
LayerOutcome rows_pass(const Runtime& run, const LayerPass& pass, ParameterRegistry& parameters,
                       L& layer, Index out_width) {
  fill_parameters(parameters, pass.parameters);
  const Index rows = pass.input.rows();
  auto saved = place([&](Arena& arena) { return layer.plan(arena, rows); });
  const FloatMatrix x(pass.input);
  FloatMatrix y(rows, out_width);
  std::as_const(layer).forward(run, x.view(), y.view(), saved.views);
  LayerOutcome out;
  out.output = y.values({rows, out_width});
  if (pass.grad_output.absent()) return out;
  const FloatMatrix dy(pass.grad_output);
  FloatMatrix dx(rows, x.columns());
  layer.backward(run, dy.view(), x.view(), std::as_const(saved.views), dx.view());
  out.dinput = dx.values(pass.input.shape());
  out.gradients = gradients_of(parameters, pass.parameters);
  return out;
}

LayerOutcome layer_norm(const Runtime& run, const LayerPass& pass) {
  ParameterRegistry parameters;
  LayerNorm layer(parameters, "ln", pass.input.columns(), pass.options.eps);
  return rows_pass(run, pass, parameters, layer, pass.input.columns());
}

LayerOutcome linear(const Runtime& run, const LayerPass& pass) {
  ParameterRegistry parameters;
  const Index width = pass.parameters.at("linear.weight").columns();
  Linear layer(parameters, "linear", pass.input.columns(), width);
  return rows_pass(run, pass, parameters, layer, width);
}

LayerOutcome feed_forward(const Runtime& run, const LayerPass& pass) {
  ParameterRegistry parameters;
  const Index inner = pass.parameters.at("mlp.c_fc.weight").columns();
  FeedForward layer(parameters, "mlp", pass.input.columns(), inner, pass.options.activation);
  return rows_pass(run, pass, parameters, layer, pass.input.columns());
}

LayerOutcome activation(const Runtime& run, const LayerPass& pass) {
  const FloatMatrix x(pass.input);
  FloatMatrix y(x.rows(), x.columns());
  kernels::activation_forward(run, pass.options.activation, x.view(), y.view());
  LayerOutcome out;
  out.output = y.values(pass.input.shape());
  if (pass.grad_output.absent()) return out;
  const FloatMatrix dy(pass.grad_output);
  kernels::activation_backward(run, pass.options.activation, dy.view(), x.view(), y.view());
  out.dinput = y.values(pass.input.shape());
  return out;
}

// dx = y ⊙ (dy − Σ y dy), in double: nothing in a model needs it apart from the loss.
LayerOutcome softmax(const Runtime& run, const LayerPass& pass) {
  const FloatMatrix x(pass.input);
  FloatMatrix y(x.rows(), x.columns());
  kernels::softmax(run, x.view(), y.view());
  LayerOutcome out;
  out.output = y.values(pass.input.shape());
  if (pass.grad_output.absent()) return out;
  const Values& dy = pass.grad_output;
  out.dinput = Values(pass.input.shape());
  for (Index n = 0; n < out.output.rows(); ++n) {
    double mean = 0.0;
    for (Index c = 0; c < dy.columns(); ++c) mean += out.output(n, c) * dy(n, c);
    for (Index c = 0; c < dy.columns(); ++c) {
      out.dinput(n, c) = out.output(n, c) * (dy(n, c) - mean);
    }
  }
  return out;
}

// --- Blocks -------------------------------------------------------------------------------------

TransformerBlock::Options block_options(const LayerPass& pass, Index layer) {
  TransformerBlock::Options o;
  o.width = pass.input.columns();
  o.heads = pass.options.heads;
  o.inner = pass.parameters.at("h.0.mlp.c_fc.weight").columns();
  o.norm = pass.options.norm;
  o.activation = pass.options.activation;
  o.eps = pass.options.eps;
  o.causal = pass.options.causal;
  o.attn_scale = attention_scale(pass, layer);
  o.layer = layer;
  return o;
}

// The blocks of a stack with the memory of a pass through them.
struct StackMemory {
  std::vector<Matrix> stream;  // layers + 1 of [N, C]: what goes into each block, and comes out
  std::vector<TransformerBlock::Saved> blocks;
  LayerNorm::Saved norm;
  Matrix output, gradient;  // [N, C]
};

LayerOutcome stack(const Runtime& run, const LayerPass& pass) {
  const Index batch = pass.input.dim(0), time = pass.input.dim(1), width = pass.input.columns();
  const Index rows = batch * time;
  const bool has_norm = std::ranges::any_of(
      pass.parameters, [](const auto& p) { return p.first.starts_with("ln_f."); });
  ParameterRegistry parameters;
  std::vector<std::unique_ptr<TransformerBlock>> blocks;
  for (Index l = 0; l < pass.layers; ++l) {
    blocks.push_back(std::make_unique<TransformerBlock>(parameters, "h." + std::to_string(l),
                                                        block_options(pass, l)));
  }
  LayerNorm norm(parameters, "ln_f", width, pass.options.eps);
  fill_parameters(parameters, pass.parameters);
  const FloatMask mask(pass.mask, {batch, pass.options.heads, time, time});

  auto memory = place([&](Arena& arena) {
    StackMemory m;
    const auto shared = blocks.front()->plan_shared(arena, batch, time, true);
    for (const auto& block : blocks) {
      m.stream.push_back(arena.matrix(rows, width));
      m.blocks.push_back(block->plan(arena, batch, time, shared));
    }
    m.stream.push_back(arena.matrix(rows, width));
    m.norm = norm.plan(arena, rows);
    m.output = arena.matrix(rows, width);
    m.gradient = arena.matrix(rows, width);
    return m;
  });
  StackMemory& m = memory.views;
  copy_values(pass.input, m.stream.front());
  for (std::size_t l = 0; l < blocks.size(); ++l) {
    blocks[l]->forward(run, batch, time, m.stream[l], m.stream[l + 1], m.blocks[l], nullptr,
                       mask.view());
  }
  if (has_norm) norm.forward(run, m.stream.back(), m.output, m.norm);
  LayerOutcome out;
  out.output = values_of(has_norm ? m.output : m.stream.back(), pass.input.shape());
  if (pass.grad_output.absent()) return out;

  copy_values(pass.grad_output, m.gradient);
  if (has_norm) norm.backward(run, m.gradient, m.stream.back(), m.norm, m.gradient);
  for (std::size_t l = blocks.size(); l-- > 0;) {
    blocks[l]->backward(run, batch, time, m.stream[l], m.blocks[l], m.gradient, nullptr,
                        mask.view());
  }
  out.dinput = values_of(m.gradient, pass.input.shape());
  out.gradients = gradients_of(parameters, pass.parameters);
  return out;
}

// --- Tokens -------------------------------------------------------------------------------------

// A sequence of one token for each id, whose only position adds nothing.
LayerOutcome embedding(const Runtime& run, const LayerPass& pass) {
  const Values& weight = pass.parameters.at("wte.weight");
  const Index rows = static_cast<Index>(pass.ids.size()), width = weight.columns();
  const TokenMatrix tokens(pass.ids.data(), {rows, 1});
  const FloatMatrix table(weight);
  FloatMatrix position(1, width), y(rows, width);
  kernels::embedding_forward(run, tokens, table.view(), position.view(), 0, y.view());
  LayerOutcome out;
  out.output = y.values({rows, width});
  if (pass.grad_output.absent()) return out;
  const FloatMatrix dy(pass.grad_output);
  FloatMatrix dtable(table.rows(), width);
  kernels::embedding_backward(run, tokens, dy.view(), dtable.view(), position.view());
  out.gradients["wte.weight"] = dtable.values(weight.shape());
  return out;
}

LayerOutcome cross_entropy(const Runtime& run, const LayerPass& pass) {
  FloatMatrix z(pass.input);
  const double smoothing = pass.options.label_smoothing;
  const View<const TokenId, 1> targets(pass.ids.data(), {z.rows()});
  LayerOutcome out;
  out.output = Values({z.rows()});
  const DoubleVector losses(&out.output[0], {z.rows()});
  if (pass.grad_output.absent()) {
    kernels::cross_entropy_forward(run, z.view(), targets, losses, smoothing);
    return out;
  }
  kernels::cross_entropy_forward_backward(run, z.view(), targets, 1.0, losses, smoothing);
  out.dinput = z.values(pass.input.shape());
  for (Index n = 0; n < z.rows(); ++n) {
    for (Index v = 0; v < z.columns(); ++v) out.dinput(n, v) *= pass.grad_output[n];
  }
  return out;
}

}  // namespace

LayerOutcome kernel_pass(const Runtime& run, const LayerPass& pass) {
  switch (pass.layer) {
    case ApplyLayer::kLayerNorm:
      return layer_norm(run, pass);
    case ApplyLayer::kFeedForward:
      return feed_forward(run, pass);
    case ApplyLayer::kAttention:
    case ApplyLayer::kScaledDotProductAttention:
      return kernel_attention(run, pass);
    case ApplyLayer::kBlock:
    case ApplyLayer::kStack:
      return stack(run, pass);
    case ApplyLayer::kLinear:
      return linear(run, pass);
    case ApplyLayer::kActivation:
      return activation(run, pass);
    case ApplyLayer::kSoftmax:
      return softmax(run, pass);
    case ApplyLayer::kEmbedding:
      return embedding(run, pass);
    case ApplyLayer::kCrossEntropy:
      return cross_entropy(run, pass);
    case ApplyLayer::kGpt:
      break;
  }
  throw ConfigError("kernel pass: expected a layer, found a model");
}

}  // namespace prenorm
