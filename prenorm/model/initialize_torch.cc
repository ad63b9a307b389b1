#include "prenorm/model/initialize_torch.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "prenorm/base/torch_random.h"

namespace prenorm {
namespace {

bool is_embedding(const Parameter& p) {
  return p.name.ends_with("wte.weight") || p.name.ends_with("wpe.weight");
}
bool is_norm(const Parameter& p) { return p.name.find("ln_") != std::string::npos; }
bool is_matrix(const Parameter& p) { return p.shape.size() == 2; }
bool is_head(const Parameter& p) { return p.name.starts_with("lm_head."); }
bool is_residual_projection(const Parameter& p) { return p.name.ends_with("c_proj.weight"); }

// Tables are [rows, width] here and there, the head [vocabulary, width]; linear layers are turned.
bool is_turned(const Parameter& p) { return !is_embedding(p) && !is_head(p); }

void draw(TorchGenerator& generator, double deviation, Parameter& p) {
  if (!is_turned(p)) return generator.normal(deviation, p.value);
  const auto in = static_cast<std::size_t>(p.shape[0]), out = static_cast<std::size_t>(p.shape[1]);
  std::vector<float> drawn(p.value.size());  // [out, in]
  generator.normal(deviation, drawn);
  for (std::size_t i = 0; i < in; ++i) {
    for (std::size_t o = 0; o < out; ++o) p.value[i * out + o] = drawn[o * in + i];
  }
}

// What the layers draw when they are made, in their order; nothing of it stays.
void skip_default_values(TorchGenerator& generator, const ParameterRegistry& parameters,
                         std::uint64_t head_size) {
  for (const Parameter& p : parameters) {
    const auto size = static_cast<std::uint64_t>(p.size());
    if (is_embedding(p)) {
      generator.skip_normal(size);
    } else if (!is_norm(p) && !is_head(p)) {
      generator.skip_uniform(size);
    }
  }
  generator.skip_uniform(head_size);
}

}  // namespace

void initialize_torch(ParameterRegistry& parameters, const GptConfig& config, std::uint64_t seed) {
  TorchGenerator generator(seed);
  const auto head_size = static_cast<std::uint64_t>(config.vocab_size * config.n_embd);
  skip_default_values(generator, parameters, head_size);

  const double deviation = config.initializer_range;
  const bool tied = config.tie_word_embeddings;
  Parameter* table = nullptr;
  for (Parameter& p : parameters) {
    if (!is_matrix(p)) {
      std::ranges::fill(p.value, is_norm(p) && p.name.ends_with(".weight") ? 1.0f : 0.0f);
    } else if (tied && p.name.ends_with("wte.weight")) {
      table = &p;
      generator.skip_normal(head_size);
    } else if (is_residual_projection(p)) {
      generator.skip_normal(static_cast<std::uint64_t>(p.size()));
    } else {
      draw(generator, deviation, p);
    }
  }
  if (table != nullptr) draw(generator, deviation, *table);
  const double smaller = deviation / std::sqrt(2.0 * static_cast<double>(config.n_layer));
  for (Parameter& p : parameters) {
    if (is_residual_projection(p)) draw(generator, smaller, p);
  }
}

}  // namespace prenorm
