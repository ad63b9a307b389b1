#include "prenorm/cli/progress_line.h"

#include <fmt/format.h>

#include "prenorm/cli/format.h"

namespace prenorm::cli {

std::string progress_line(const Progress& progress) {
  std::string line = fmt::format("iter {}/{}", progress.iter, progress.max_iters);
  if (progress.loss) line += fmt::format("  loss {:.3f}", *progress.loss);
  const auto& validation = progress.val_loss ? progress.val_loss : progress.last_val_loss;
  if (validation) line += fmt::format("  val {:.3f}", *validation);
  if (progress.iter > 0) line += "  lr " + scientific_text(progress.learning_rate);
  if (progress.grad_norm) line += fmt::format("  |g| {:.2f}", *progress.grad_norm);
  if (progress.tokens_per_second > 0) {
    line += "  " + short_count(progress.tokens_per_second) + " tok/s";
  }
  if (progress.eta_seconds > 0) line += "  ETA " + duration_text(progress.eta_seconds);
  if (progress.skipped_steps > 0) line += fmt::format("  skipped {}", progress.skipped_steps);
  return line;
}

std::string plan_lines(const TrainingPlan& plan, const GptConfig& config, Index steps) {
  return fmt::format(
      "model   {} parameters: {} layers, {} heads, width {}, context {}, vocabulary {}\n"
      "step    {} tokens, {}, {:.3g} ms\n"
      "memory  {} at the peak\n"
      "time    {} for {} steps\n",
      short_count(static_cast<double>(plan.parameters)), config.n_layer, config.n_head,
      config.n_embd, config.block_size, grouped(config.vocab_size), grouped(plan.tokens_per_step),
      flops_text(plan.flops_per_step), plan.seconds_per_step * 1e3, bytes_text(plan.memory.total()),
      duration_text(plan.seconds), grouped(steps));
}

}  // namespace prenorm::cli
