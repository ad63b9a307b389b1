// The parameters of a GPT by Hugging Face's GPT-2 names, as a structure that the textbook computes
// with and as a map from name to tensor. Matrices of linear layers are [in, out].
//
//   GptParameters<double> p = from_map(map, 12);    // "transformer.h.0.ln_1.weight" and so on
//   for_each_parameter(p, [](const std::string& name, Tensor<double>& tensor) { ... });
#pragma once
#include <map>
#include <string>

#include "prenorm/reference/embedding.h"
#include "prenorm/reference/transformer_block.h"

namespace prenorm::reference {

template <typename S>
struct GptParameters {
  EmbeddingParameters<S> embedding;
  std::vector<BlockParameters<S>> h;
  LayerNormParameters<S> ln_f;
  Tensor<S> lm_head = {};  // [V, C], or absent: wte is used
};

template <typename S>
using ParameterMap = std::map<std::string, Tensor<S>>;

// Calls visit(name, tensor) for every parameter of a block, the absent ones too, in the order in
// which they are used. `p` is a BlockParameters<S>, const or not.
template <typename P, typename Visit>
void for_each_block_parameter(P& p, const std::string& prefix, const Visit& visit) {
  visit(prefix + "ln_1.weight", p.ln_1.weight);
  visit(prefix + "ln_1.bias", p.ln_1.bias);
  visit(prefix + "attn.c_attn.weight", p.attn.c_attn.weight);
  visit(prefix + "attn.c_attn.bias", p.attn.c_attn.bias);
  visit(prefix + "attn.c_proj.weight", p.attn.c_proj.weight);
  visit(prefix + "attn.c_proj.bias", p.attn.c_proj.bias);
  visit(prefix + "ln_2.weight", p.ln_2.weight);
  visit(prefix + "ln_2.bias", p.ln_2.bias);
  visit(prefix + "mlp.c_fc.weight", p.mlp.c_fc.weight);
  visit(prefix + "mlp.c_fc.bias", p.mlp.c_fc.bias);
  visit(prefix + "mlp.c_proj.weight", p.mlp.c_proj.weight);
  visit(prefix + "mlp.c_proj.bias", p.mlp.c_proj.bias);
}

template <typename P, typename Visit>
void for_each_parameter(P& p, const Visit& visit) {
  visit(std::string("transformer.wte.weight"), p.embedding.wte);
  visit(std::string("transformer.wpe.weight"), p.embedding.wpe);
  for (std::size_t i = 0; i < p.h.size(); ++i) {
    for_each_block_parameter(p.h[i], "transformer.h." + std::to_string(i) + ".", visit);
  }
  visit(std::string("transformer.ln_f.weight"), p.ln_f.weight);
  visit(std::string("transformer.ln_f.bias"), p.ln_f.bias);
  visit(std::string("lm_head.weight"), p.lm_head);
}

// Whether a name may be missing from a model: biases, and the head of a tied one.
inline bool optional_parameter(std::string_view name) {
  return name.ends_with(".bias") || name == "lm_head.weight";
}

// Throws FormatError for a missing weight. Names that the model does not have are left alone.
template <typename S>
GptParameters<S> from_map(const ParameterMap<S>& map, Index n_layer) {
  GptParameters<S> p;
  p.h.resize(static_cast<std::size_t>(n_layer));
  for_each_parameter(p, [&](const std::string& name, Tensor<S>& tensor) {
    const auto found = map.find(name);
    if (found != map.end()) {
      tensor = found->second;
    } else if (!optional_parameter(name)) {
      throw FormatError("parameters: expected " + name + ", found no tensor of that name");
    }
  });
  return p;
}

// The parameters that are there.
template <typename S>
ParameterMap<S> to_map(const GptParameters<S>& p) {
  ParameterMap<S> map;
  for_each_parameter(p, [&](const std::string& name, const Tensor<S>& tensor) {
    if (!tensor.absent()) map[name] = tensor;
  });
  return map;
}

template <typename S>
GptParameters<S> rounded(GptParameters<S> p, Numbers numbers) {
  for_each_parameter(p, [&](const std::string&, Tensor<S>& tensor) {
    tensor = rounded(std::move(tensor), numbers);
  });
  return p;
}

// All tensors of a set of parameters in one fixed order, the absent ones too, and back: the form in
// which a function of all parameters is a function of tensors.
template <typename S>
std::vector<Tensor<S>> flattened(const BlockParameters<S>& p) {
  std::vector<Tensor<S>> out;
  for_each_block_parameter(p, "", [&](const auto&, const Tensor<S>& t) { out.push_back(t); });
  return out;
}
template <typename S>
std::vector<Tensor<S>> flattened(const GptParameters<S>& p) {
  std::vector<Tensor<S>> out;
  for_each_parameter(p, [&](const auto&, const Tensor<S>& t) { out.push_back(t); });
  return out;
}

// From the tensors that begin at `first`.
template <typename S>
BlockParameters<S> block_parameters(const std::vector<Tensor<S>>& tensors, std::size_t first = 0) {
  BlockParameters<S> p;
  for_each_block_parameter(p, "", [&](const auto&, Tensor<S>& t) { t = tensors.at(first++); });
  return p;
}
template <typename S>
GptParameters<S> gpt_parameters(const std::vector<Tensor<S>>& tensors, Index n_layer) {
  GptParameters<S> p;
  p.h.resize(static_cast<std::size_t>(n_layer));
  std::size_t next = 0;
  for_each_parameter(p, [&](const auto&, Tensor<S>& t) { t = tensors.at(next++); });
  return p;
}

// The same parameters in another scalar type.
template <typename To, typename From>
std::vector<Tensor<To>> cast_all(const std::vector<Tensor<From>>& tensors) {
  std::vector<Tensor<To>> out;
  for (const Tensor<From>& tensor : tensors) out.push_back(cast<To>(tensor));
  return out;
}
template <typename To, typename From>
BlockParameters<To> cast(const BlockParameters<From>& p) {
  return block_parameters(cast_all<To>(flattened(p)));
}
template <typename To, typename From>
GptParameters<To> cast(const GptParameters<From>& p) {
  return gpt_parameters(cast_all<To>(flattened(p)), static_cast<Index>(p.h.size()));
}

}  // namespace prenorm::reference
