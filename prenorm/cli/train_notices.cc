#include "prenorm/cli/train_notices.h"

#include <fmt/format.h>

#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/format.h"
#include "prenorm/cli/progress_line.h"
#include "prenorm/report/watch_report.h"

namespace prenorm::cli {

void TrainNotices::notice(const std::string& text) {
  status_.keep();
  log_.print("notice: {}\n", text);
  log_.flush();
}

void TrainNotices::attach(TrainCallbacks& callbacks, std::optional<MetricsFile>& metrics) {
  callbacks.on_progress = [this, &metrics](const Progress& progress) {
    metrics->append(progress);
    status_.show(progress_line(progress));
    if (progress.val_loss) status_.keep();
  };
  callbacks.on_watch = [&metrics](const WatchFrame& frame) { metrics->append(frame); };
  callbacks.on_non_finite = [this, &metrics](const NonFinite& found) {
    metrics->append(found);
    non_finite(found);
  };
  callbacks.on_skip = [this](const SkippedStep& step) {
    notice(fmt::format("step {} is skipped: loss {}, gradient norm {}", step.iter, step.loss,
                       step.grad_norm));
  };
  callbacks.on_spike = [this, &metrics](const LossSpike& spike) {
    metrics->append(spike);
    notice(fmt::format("step {}: loss {:.3f} is far above the median of {:.3f} of the steps before",
                       spike.iter - 1, spike.loss, spike.median));
  };
}

// With the frames that led to it, where there are any.
void TrainNotices::non_finite(const NonFinite& found) {
  notice(fmt::format("step {}: first bad number in {}", found.iter - 1, non_finite_text(found)));
  for (const WatchFrame& frame : found.frames) {
    log_.print("watch:   {}\n", frame_text(frame));
  }
}

std::string products_lines(Isa isa, Products products) {
  const Bf16Unit unit = bf16_unit(isa, products);
  const bool dot = products == Products::kBfloat16Dot;
  std::string lines = fmt::format("dtype   products in bfloat16, sums as {}, by {}\n",
                                  dot ? "dot" : "tile", bf16_unit_name(unit));
  if (unit == Bf16Unit::kFusedMultiplyAdd) {
    lines += fmt::format(
        "notice: no {} here with {}: the bits are the same, and --dtype f32 is faster\n",
        bf16_unit_name(dot ? Bf16Unit::kDotProduct : Bf16Unit::kMatrix), isa_name(isa));
  }
  return lines;
}

void tell_result(const TrainResult& result, const std::string& folder, bool json,
                 const Streams& streams) {
  const Progress& last = result.last;
  if (json) {
    const auto number = [](const std::optional<double>& value) {
      return value ? Json(*value) : Json(nullptr);
    };
    streams.out.write(dump_json_compact({{"out_dir", folder},
                                         {"iter", last.iter},
                                         {"max_iters", last.max_iters},
                                         {"interrupted", result.interrupted},
                                         {"out_of_patience", result.out_of_patience},
                                         {"loss", number(last.loss)},
                                         {"val_loss", number(last.last_val_loss)},
                                         {"best_val_loss", number(last.best_val_loss)},
                                         {"best_iter", last.best_iter},
                                         {"skipped_steps", last.skipped_steps},
                                         {"tokens_per_second", last.tokens_per_second},
                                         {"elapsed", last.elapsed_seconds}}) +
                      "\n");
    return;
  }
  const std::string shown = printable(folder, 200);
  if (result.interrupted) {
    streams.out.print(
        "stopped and saved at step {} of {}; go on with: prenorm train --resume with "
        "the same flags\n",
        last.iter, last.max_iters);
    return;
  }
  streams.out.print("trained {} steps in {}", grouped(last.iter),
                    duration_text(last.elapsed_seconds));
  if (last.last_val_loss) streams.out.print(", validation loss {:.4f}", *last.last_val_loss);
  if (result.out_of_patience && last.best_val_loss) {
    streams.out.print("; it was lowest at step {}, {:.4f}: {}/best", grouped(last.best_iter),
                      *last.best_val_loss, shown);
  }
  streams.out.print("\nreport:   {}/report.html\ngenerate: prenorm generate -m {} -p TEXT\n", shown,
                    shown);
}

}  // namespace prenorm::cli
