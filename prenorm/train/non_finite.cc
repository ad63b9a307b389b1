#include "prenorm/train/non_finite.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace prenorm {
namespace {

// The first number that is not finite.
template <typename T>
std::optional<double> odd_number(std::span<const T> values) {
  for (const T value : values) {
    if (!std::isfinite(value)) return static_cast<double>(value);
  }
  return std::nullopt;
}

template <typename T>
std::optional<double> odd_number(View<T, 1> values) {
  return odd_number(std::span<const std::remove_const_t<T>>(
      values.data(), static_cast<std::size_t>(values ? values.dim(0) : 0)));
}

template <typename T>
std::optional<double> odd_number(View<T, 2> values) {
  for (Index row = 0; values && row < values.dim(0); ++row) {
    if (const auto odd = odd_number(values[row])) return odd;
  }
  return std::nullopt;
}

}  // namespace

std::string value_text(double value) {
  return std::isnan(value) ? std::string("nan") : fmt::format("{}", value);
}

NonFiniteTrace::NonFiniteTrace(const Gpt& model) : model_(model) {
  observer_.on_block = [this](Index layer, ConstMatrix x, const auto& saved, ConstMatrix y) {
    look_at_block(layer, x, saved, y);
  };
  observer_.on_final_norm = [this](ConstMatrix, ConstMatrix y) {
    look("forward", -1, "transformer.ln_f", y);
  };
  observer_.on_gradient = [this](Index layer, ConstMatrix gradient) {
    look_at_gradient(layer, gradient);
  };
}

// True where there is nothing more to look for.
template <typename Values>
bool NonFiniteTrace::look(const char* pass, Index layer, const std::string& stage,
                          const Values& values) {
  auto& into = std::string_view(pass) == "backward" ? backward_ : found_;
  if (into) return true;
  const auto odd = odd_number(values);
  if (!odd) return false;
  into = NonFinite{0, pass, layer, stage, *odd, {}};
  return true;
}

// In the order in which a block computes them: a norm by its statistics, the attention's scores by
// the largest of each row.
void NonFiniteTrace::look_at_block(Index layer, ConstMatrix x, const TransformerBlock::Saved& saved,
                                   ConstMatrix y) {
  const std::string h = fmt::format("transformer.h.{}.", layer);
  const bool pre = model_.config().norm == NormPlacement::kPre;
  const auto at = [&](const char* stage, const auto& values) {
    return look("forward", layer, h + stage, values);
  };
  const auto norm = [&](const char* stage, const LayerNorm::Saved& statistics) {
    return at(stage, statistics.mean) || at(stage, statistics.rstd);
  };
  if (layer == 0 && look("forward", -1, "transformer.drop", x)) return;
  if (pre && norm("ln_1", saved.ln_1)) return;
  if (at("attn.c_attn", saved.attention.qkv)) return;
  if (at("attn scores", saved.attention.row_max)) return;
  if (at("attn", saved.attention.attended)) return;
  if (at("attn.c_proj", pre ? saved.h : saved.sum1)) return;
  if (!pre && (norm("ln_1", saved.ln_1) || at("ln_1", saved.h))) return;
  if (pre && norm("ln_2", saved.ln_2)) return;
  if (at("mlp.c_fc", saved.feed_forward.hidden)) return;
  if (at("mlp.c_proj", pre ? y : ConstMatrix(saved.sum2))) return;
  if (!pre && norm("ln_2", saved.ln_2)) return;
  at("output", y);
}

void NonFiniteTrace::look_at_gradient(Index layer, ConstMatrix gradient) {
  if (found_) return;  // the forward pass had it
  const auto parameters = [&](const std::string& prefix) {
    for (const Parameter& p : model_.parameters()) {
      if (!p.name.starts_with(prefix)) continue;
      const std::string module = prefix.substr(0, prefix.size() - 1);
      const bool block = module.starts_with("transformer.h.");
      if (look("backward", block ? layer : -1, "gradient of " + p.name,
               std::span<const float>(p.grad))) {
        return true;
      }
    }
    return false;
  };
  if (layer == model_.config().n_layer) {
    if (parameters("lm_head.") || parameters("transformer.ln_f.")) return;
    look("backward", -1, "gradient of the stream before transformer.ln_f", gradient);
    return;
  }
  const std::string h = fmt::format("transformer.h.{}.", layer);
  const bool pre = model_.config().norm == NormPlacement::kPre;
  using Modules = std::vector<const char*>;
  for (const char* module :
       pre ? Modules{"mlp.c_proj.", "mlp.c_fc.", "ln_2.", "attn.c_proj.", "attn.c_attn.", "ln_1."}
           : Modules{"ln_2.", "mlp.c_proj.", "mlp.c_fc.", "ln_1.", "attn.c_proj.",
                     "attn.c_attn."}) {
    if (parameters(h + module)) return;
  }
  look("backward", layer, fmt::format("gradient of the stream before transformer.h.{}", layer),
       gradient);
}

void NonFiniteTrace::look_at_loss(double loss) {
  if (!found_ && !std::isfinite(loss)) found_ = NonFinite{0, "loss", -1, "loss", loss, {}};
  if (!found_) found_ = backward_;
  if (found_) return;
  for (const Parameter& p : model_.parameters()) {  // the embeddings come last
    if (look("forward", -1, "gradient of " + p.name, std::span<const float>(p.grad))) {
      found_->pass = "backward";
      return;
    }
  }
}

}  // namespace prenorm
