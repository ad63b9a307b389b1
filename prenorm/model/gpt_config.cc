#include "prenorm/model/gpt_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"

namespace prenorm {
namespace {

constexpr Index kMaxSize = std::numeric_limits<std::int32_t>::max();

void check_size(const char* name, Index value, Index least = 1) {
  if (value >= least && value <= kMaxSize) return;
  throw ConfigError(fmt::format("{}: expected a whole number from {} to {}, found {}", name, least,
                                kMaxSize, value));
}

void check_probability(const char* name, double p) {
  if (p >= 0.0 && p < 1.0) return;
  throw ConfigError(fmt::format("{}: expected a probability in [0, 1), found {}", name, p));
}

void check_positive(const char* name, double value) {
  if (value > 0.0 && std::isfinite(value)) return;
  throw ConfigError(fmt::format("{}: expected a positive number, found {}", name, value));
}

}  // namespace

double GptConfig::attention_scale(Index layer) const {
  const double root = std::sqrt(static_cast<double>(n_embd / n_head));
  const double scale = scale_attn_weights ? 1.0 / root : 1.0;
  return scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
}

double GptConfig::forward_flops(Index time) const {
  const auto tokens = static_cast<double>(time), layers = static_cast<double>(n_layer);
  return 2.0 * static_cast<double>(matrix_elements()) * tokens +
         2.0 * layers * tokens * tokens * static_cast<double>(n_embd);
}

void GptConfig::validate() const {
  check_size("vocab_size", vocab_size);
  check_size("block_size", block_size);
  check_size("n_layer", n_layer);
  check_size("n_head", n_head);
  check_size("n_embd", n_embd);
  check_size("n_inner", n_inner, 0);
  if (n_embd % n_head != 0) {
    throw ConfigError(fmt::format(
        "n_head: expected a number of heads that divides n_embd = {}, found {}", n_embd, n_head));
  }
  check_positive("layer_norm_epsilon", layer_norm_epsilon);
  check_positive("initializer_range", initializer_range);
  check_probability("embd_pdrop", embd_pdrop);
  check_probability("attn_pdrop", attn_pdrop);
  check_probability("resid_pdrop", resid_pdrop);
  // The whole model must be countable in bytes before anyone allocates a part of it.
  const auto block = checked_mul(n_embd, 4 * n_embd + 2 * feed_forward_width() + 32);
  const auto blocks = block ? checked_mul(*block, n_layer) : block;
  const auto tables = checked_mul(n_embd, 2 * vocab_size + block_size);
  const auto total = blocks && tables ? checked_add(*blocks, *tables) : std::nullopt;
  if (!total || *total > std::numeric_limits<Index>::max() / 64) {
    throw ConfigError(
        fmt::format("n_layer {} with n_embd {}: expected a model that memory can hold, found "
                    "more than 2^57 parameters",
                    n_layer, n_embd));
  }
}

}  // namespace prenorm
