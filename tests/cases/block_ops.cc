// Ops of a whole multi-head attention layer and of Transformer blocks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "prenorm/kernels/attention.h"
#include "prenorm/kernels/layer_norm.h"
#include "tests/cases/layers_of_case.h"
#include "tests/cases/registry.h"

namespace prenorm::cases {
namespace {

// --- Multi-head attention
// -------------------------------------------------------------------------

// Rows of several matrices, one after another.
Array stacked(const std::vector<Array>& parts) {
  Array out{parts.front().shape, {}};
  out.shape[0] = 0;
  for (const Array& part : parts) {
    out.shape[0] += part.shape[0];
    out.values.insert(out.values.end(), part.values.begin(), part.values.end());
  }
  return out;
}

// Rows packed as [H, 3, D] brought into the order [3, H, D].
Array unpacked_by_head(const Array& packed, Index heads) {
  const Index rows = packed.shape[0], width = rows / (3 * heads);
  const Index columns = packed.size() / rows;
  Array out = packed;
  for (Index to = 0; to < rows; ++to) {
    const Index part = to / (heads * width), h = to / width % heads, d = to % width;
    const Index from = (h * 3 + part) * width + d;
    std::copy_n(packed.values.begin() + from * columns, columns, out.values.begin() + to * columns);
  }
  return out;
}

void check_gradients(Case& c, const TorchParameters& parameters, const Json& want) {
  if (want.is_string()) {  // "zeros"
    for (const std::string& name : parameters.names()) {
      c.check_against("param_grads." + name, want, parameters.gradient(name));
    }
    return;
  }
  for (const auto& [name, values] : want.items()) {
    c.check_against("param_grads." + name, values, parameters.gradient(name));
  }
}

void check_backward(Case& c, AttentionOfCase& layer, const Shape& shape) {
  const auto dy = c.input.array("dy", shape);
  if (!dy) return;
  c.check("dx", layer.backward(c.run(), *dy));
  if (const Json* want = c.expected.find("param_grads")) {
    check_gradients(c, layer.parameters(), *want);
  }
}

// Shapes without a token: the pair runs, and no gradient appears.
void attention_over_nothing(Case& c, Index heads) {
  if (c.expected.has("no_crash")) {
    c.require(c.expected.flag("no_crash", false), "no_crash to be true: this line was reached");
  }
  const Json& shapes = c.input.at("x_shapes");
  Array found{{static_cast<Index>(shapes.size()), 0}, {}};
  for (const Json& one : shapes) {
    const Shape shape = shape_from(one);
    AttentionOfCase layer(shape.back(), heads, true);
    const Array x{shape, std::vector<double>(static_cast<std::size_t>(product(shape)), 1.0)};
    const Array y = layer.forward(c.run(), x);
    c.require(y.size() == product(shape), "as many outputs as inputs");
    c.require(layer.backward(c.run(), x).shape == shape, "a gradient of x's shape");
    if (const Json* want = c.expected.find("param_grads")) {
      check_gradients(c, layer.parameters(), *want);
    }
    found.shape[1] = static_cast<Index>(y.shape.size());
    for (const Index n : y.shape) found.values.push_back(static_cast<double>(n));
  }
  c.check("y_shapes", found);
}

// The attention weights of T queries over T keys in one head, all scores of order one: with one-hot
// values the output is the weights.
std::vector<float> attention_weights(Case& c, Index time, const kernels::AttentionMask& mask) {
  const Floats qk = floats_from(val(1, {2 * time, time}, 512.0));
  Floats one_hot({time, time}), out({time, time});
  for (Index t = 0; t < time; ++t) one_hot.matrix()[t][t] = 1.0f;
  kernels::AttentionShape shape;
  shape.time = time;
  shape.head_width = time;
  shape.scale = 1.0 / std::sqrt(static_cast<double>(time));
  kernels::attention_forward(
      c.run(), shape,
      {qk.matrix().rows(0, time), qk.matrix().rows(time, time), std::as_const(one_hot).matrix()},
      mask, out.matrix(), {}, {}, {});
  return out.values;
}

// No weight on keys after the query, whatever mask comes on top; and none on what that blocks.
void causal_with_masks(Case& c) {
  const Index time = c.input.integer("T");
  const auto square = static_cast<std::size_t>(time * time);
  for (const Json& word : c.input.at("with")) {
    const std::string with = word.get<std::string>();
    kernels::AttentionMask mask;
    std::vector<unsigned char> padding(static_cast<std::size_t>(time), 0);
    std::vector<float> added(square, 0.0f);
    std::vector<bool> blocked(square, false);
    const bool keys = mentions(with, "padding"), matrix = mentions(with, "additive");
    const bool boolean = mentions(with, "bool");
    if (!keys && !matrix && !boolean && !mentions(with, "no mask")) {
      throw BadCase(
          "input.with: expected no mask, key padding mask, additive mask or boolean "
          "mask, found '" +
          with + "'");
    }
    if (keys) {
      padding[0] = padding[static_cast<std::size_t>(time / 2)] = 1;
      mask.key_blocked = {padding.data(), {1, time}};
    }
    for (std::size_t i = 0; i < square; ++i) {
      const bool off = boolean && i % 3 == 1;
      blocked[i] = off || (keys && padding[i % static_cast<std::size_t>(time)] != 0);
      added[i] = off ? -std::numeric_limits<float>::infinity() : static_cast<float>(i % 5);
    }
    if (matrix || boolean) mask.added = {added.data(), {1, 1, time, time}};
    const std::vector<float> weights = attention_weights(c, time, mask);
    for (Index t = 0; t < time; ++t) {
      double sum = 0.0;
      bool sees_any = false;
      for (Index s = 0; s < time; ++s) {
        const auto at = static_cast<std::size_t>(t * time + s);
        const bool unseen = s > t || blocked[at];
        sees_any = sees_any || !unseen;
        sum += weights[at];
        c.require(
            unseen == (weights[at] == 0.0f),
            with + ": a weight on exactly the keys that query " + std::to_string(t) + " may see",
            std::to_string(weights[at]) + " on key " + std::to_string(s));
      }
      c.require(std::abs(sum - (sees_any ? 1.0 : 0.0)) < 1e-5, with + ": weights that sum to 1");
    }
  }
  c.promise("property");
}

// attn_mask [T, T], true blocked or numbers added, and key_padding_mask [B, T], true blocked, as
// torch.nn.MultiheadAttention takes them.
struct GivenMask {
  std::vector<float> added;
  std::vector<unsigned char> padding;
  kernels::AttentionMask mask;
};

GivenMask read_mask(Case& c, const Shape& x, Index heads) {
  const Index time = x[x.size() - 2], batch = x.size() == 3 ? x[0] : 1;
  GivenMask given;
  if (const Json* rows = c.input.find("attn_mask")) {
    const Array values = array_from(*rows);
    if (values.shape != Shape{time, time}) throw BadCase("input.attn_mask: expected [T, T]");
    const bool boolean = rows->at(0).at(0).is_boolean();
    for (const double value : values.values) {
      const float blocked = -std::numeric_limits<float>::infinity();
      given.added.push_back(boolean ? (value != 0.0 ? blocked : 0.0f) : static_cast<float>(value));
    }
    given.mask.added = {given.added.data(), {batch, heads, time, time}, {0, 0, time, 1}};
  }
  if (const auto values = c.input.array("key_padding_mask")) {
    if (values->size() != batch * time) throw BadCase("input.key_padding_mask: expected [B, T]");
    for (const double value : values->values) given.padding.push_back(value != 0.0 ? 1 : 0);
    given.mask.key_blocked = {given.padding.data(), {batch, time}};
  }
  return given;
}

void causal_mha(Case& c) {
  if (c.input.has("with")) return causal_with_masks(c);
  const Index heads = c.input.integer("n_head");
  if (c.input.has("x_shapes")) return attention_over_nothing(c, heads);
  const Array x = *c.input.array("x");
  const Array in = stacked({*c.input.array("Wq"), *c.input.array("Wk"), *c.input.array("Wv")});
  std::vector<Array> biases;  // bq, bk, bv, bo beside the matrices, or in an object
  const Json* object = c.input.find("bias");
  for (const char* key : {"bq", "bk", "bv", "bo"}) {
    if (const auto bias = c.input.array(key)) biases.push_back(*bias);
    if (object != nullptr && object->is_object() && object->contains(key)) {
      biases.push_back(array_from(object->at(key)));
    }
  }
  const bool said = object != nullptr && !object->is_object() && *object != false;
  if (said || biases.size() % 4 != 0) {
    throw BadCase("input: expected bias null, or all of bq, bk, bv, bo");
  }
  AttentionOfCase layer(x.shape.back(), heads, !biases.empty(), c.input.flag("causal", true));
  layer.parameters().set("in_proj_weight", in);
  layer.parameters().set("out_proj.weight", *c.input.array("Wo"));
  if (!biases.empty()) {
    layer.parameters().set("in_proj_bias", stacked({biases[0], biases[1], biases[2]}));
    layer.parameters().set("out_proj.bias", biases[3]);
  }
  const GivenMask given = read_mask(c, x.shape, heads);
  c.check("y", layer.forward(c.run(), x, given.mask));
  check_backward(c, layer, x.shape);
}

void causal_mha_packed(Case& c) {
  const Index heads = c.input.integer("n_head");
  const Array x = *c.input.array("x");
  const std::string layout = c.input.text("layout", "stacked");
  const bool by_head = mentions(layout, "head") || mentions(layout, "interleaved");
  if (!by_head && layout != "stacked") {
    throw BadCase("input.layout: expected stacked or interleaved by head, found " + layout);
  }
  const auto in_bias = c.input.array("in_proj_bias"), out_bias = c.input.array("out_proj_bias");
  AttentionOfCase layer(x.shape.back(), heads, in_bias.has_value(), c.input.flag("causal", true));
  const auto in_order = [&](const Array& packed) {
    return by_head ? unpacked_by_head(packed, heads) : packed;
  };
  layer.parameters().set("in_proj_weight", in_order(*c.input.array("in_proj_weight")));
  layer.parameters().set("out_proj.weight", *c.input.array("out_proj_weight"));
  if (in_bias) layer.parameters().set("in_proj_bias", in_order(*in_bias));
  if (out_bias) layer.parameters().set("out_proj.bias", *out_bias);
  const GivenMask given = read_mask(c, x.shape, heads);
  c.check("y", layer.forward(c.run(), x, given.mask));
  check_backward(c, layer, x.shape);
}

// --- Blocks
// ---------------------------------------------------------------------------------------

TransformerBlock::Options block_options(Case& c, const Json& params, NormPlacement norm) {
  TransformerBlock::Options options;
  const Array in = array_from(params.at("linear1.weight"));
  if (in.shape.size() != 2) throw BadCase("params: 'linear1.weight': expected a matrix");
  options.width = c.input.integer("d", in.shape[1]);
  options.inner = c.input.integer("d_ff", in.shape[0]);
  options.heads = c.input.integer("n_head");
  const std::string activation = c.input.text("activation");
  const auto kind = activation_from_name(activation == "gelu_tanh" ? "gelu-tanh" : activation);
  if (!kind)
    throw BadCase("input.activation: expected relu, gelu or gelu-tanh, found " + activation);
  options.activation = *kind;
  options.norm = norm;
  options.eps = c.input.number("eps", 1e-5);
  options.causal = c.input.flag("causal", true);
  const bool has_bias = params.contains("linear1.bias");
  options.bias = c.input.flag("bias", has_bias);
  return options;
}

void transformer_block_fwd_bwd(Case& c) {
  const std::string norm = c.input.text("norm");
  const auto placement = norm_placement_from_name(norm);
  if (!placement) throw BadCase("input.norm: expected pre or post, found " + norm);
  const Json& params = c.input.at("params");
  BlockOfCase block(block_options(c, params, *placement));
  block.parameters().load(params);
  const Array x = *c.input.array("x");
  c.check("y", block.forward(c.run(), x));
  const auto dy = c.input.array("dy", x.shape);
  if (!dy) return;
  c.check("dx", block.backward(c.run(), *dy));
  if (const Json* want = c.expected.find("param_grads")) {
    check_gradients(c, block.parameters(), *want);
  }
}

Array layer_norm(const Runtime& run, const Array& x, const Json& parameters, double eps) {
  const Floats in = floats_from(x), weight = floats_from(array_from(parameters.at("weight")));
  Floats bias, out(x.shape);
  if (parameters.contains("bias")) bias = floats_from(array_from(parameters.at("bias")));
  kernels::layer_norm_forward(run, in.matrix(), weight.vector(), std::as_const(bias).vector(), eps,
                              out.matrix(), {}, {});
  return array_of(out);
}

// One block's parameters, a list of them, or PyTorch's layers.N.* of a stack.
std::vector<Json> blocks_of(const Json& params) {
  if (params.is_array()) return {params.begin(), params.end()};
  std::vector<Json> blocks;
  for (const auto& [name, values] : params.items()) {
    if (!name.starts_with("layers.")) return {params};
    const std::size_t dot = name.find('.', 7);
    const auto layer = static_cast<std::size_t>(std::stoul(name.substr(7)));
    if (dot == std::string::npos || layer > blocks.size()) {
      throw BadCase("params: '" + name + "': not known");
    }
    if (layer == blocks.size()) blocks.emplace_back(Json::object());
    blocks[layer][name.substr(dot + 1)] = values;
  }
  return blocks;
}

void stack(Case& c, NormPlacement placement) {
  Array y = *c.input.array("x");
  for (const Json& params : blocks_of(c.input.at("params"))) {
    BlockOfCase block(block_options(c, params, placement));
    block.parameters().load(params);
    y = block.forward(c.run(), y);
  }
  const double eps = c.input.number("eps", 1e-5);
  c.check("y_without_final_norm", y);
  if (const Json* norm = c.input.find("final_norm")) y = layer_norm(c.run(), y, *norm, eps);
  c.check("y", y);
  c.check("y_with_final_norm", y);
  if (const Json* given = c.expected.find("y_if_final_norm_given")) {
    c.check_against("y_if_final_norm_given.y", given->at("y"), layer_norm(c.run(), y, *given, eps));
  }
}

}  // namespace

void add_block_ops(Registry& ops) {
  ops["causal_mha"] = causal_mha;
  ops["causal_mha_packed"] = causal_mha_packed;
  ops["transformer_block_fwd_bwd"] = transformer_block_fwd_bwd;
  ops["post_norm_stack"] = [](Case& c) { stack(c, NormPlacement::kPost); };
  ops["pre_norm_stack"] = [](Case& c) { stack(c, NormPlacement::kPre); };
}

}  // namespace prenorm::cases
