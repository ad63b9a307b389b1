#include "prenorm/model/gpt_stages.h"

#include "prenorm/kernels/add.h"
#include "prenorm/model/gpt.h"

namespace prenorm {
namespace {

constexpr std::string_view kBlocks = "transformer.h.";

// Joined where only the padding between two parameters is between them.
void append(std::vector<std::span<float>>& parts, std::span<float> part) {
  constexpr std::ptrdiff_t kPadding = 16;
  if (!parts.empty()) {
    std::span<float>& last = parts.back();
    const std::ptrdiff_t gap = part.data() - (last.data() + last.size());
    if (gap >= 0 && gap < kPadding) {
      last = {last.data(), part.data() + part.size()};
      return;
    }
  }
  parts.push_back(part);
}

}  // namespace

Index Gpt::stage_of(const Parameter& parameter) const {
  const std::string_view name = parameter.name;
  if (name.starts_with(kBlocks)) {
    const std::string_view rest = name.substr(kBlocks.size());
    const std::size_t dot = rest.find('.');
    Index layer = 0;
    for (const char c : rest.substr(0, dot)) layer = 10 * layer + (c - '0');
    const std::string_view part = rest.substr(dot + 1);
    const bool attention = part.starts_with("ln_1.") || part.starts_with("attn.");
    return 2 * (config_.n_layer - layer) - (attention ? 0 : 1);
  }
  const bool embedding = name.starts_with("transformer.w");  // wte, wpe
  const bool head = &parameter == &embedding_->token_weight() && config_.tie_word_embeddings;
  return embedding && !head ? stages() - 1 : 0;
}

std::vector<std::span<float>> Gpt::stage_gradients(const Workspace& work, Index stage) const {
  std::vector<std::span<float>> parts;
  for (const Parameter& p : parameters_) {
    if (stage_of(p) == stage) append(parts, p.grad);
  }
  if (stage + 1 == stages() && work.token_sums_) {
    const Matrix sums = work.token_sums_;
    parts.emplace_back(sums.data(), static_cast<std::size_t>(sums.dim(0) * sums.dim(1)));
  }
  return parts;
}

void Gpt::clear_gradients(const Runtime& run, Workspace& work) {
  parameters_.zero_grad();
  if (work.token_sums_) kernels::fill_zero(run, work.token_sums_);
}

}  // namespace prenorm
