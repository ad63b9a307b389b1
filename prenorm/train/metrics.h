// metrics.jsonl: one JSON object a line for each progress line of a run.
//
//   {"iter":120,"loss":2.41,"lr":0.0006,"grad_norm":0.91,"tokens_per_second":8100,"elapsed":33.1}
//
// "val_loss" is there where an evaluation was made. A number that is not finite is null. A run that
// is watched has lines of the blocks' health; a step whose loss was far above those before it
// (loss_spike.h), and one in which a number stopped being finite, have a line each:
//
//   {"iter":120,"watch":{"loss":2.41,"grad_norm":0.91,"layers":[{"rms":1.2,"spread":1.2,
//    "largest":5.1,"zeros":0.02,"max_score":3.3,"grad_norm":0.3}, …]}}
//   {"iter":137,"non_finite":{"pass":"forward","layer":3,"stage":"transformer.h.3.attn scores",
//    "value":"inf","frames":[{"iter":110,"loss":…,"layers":[…]}, …]}}
//   {"iter":250,"loss_spike":{"loss":9.1,"median":2.2,"limit":3.9}}
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "prenorm/base/append_file.h"
#include "prenorm/train/loss_spike.h"
#include "prenorm/train/non_finite.h"
#include "prenorm/train/progress.h"

namespace prenorm {

struct MetricsRow {
  Index iter = 0;
  std::optional<double> loss, val_loss, learning_rate, grad_norm, tokens_per_second, elapsed;
};

class MetricsFile {
 public:
  // Keeps the lines of earlier sessions up to and including iteration keep_through (−1: none) and
  // cuts the rest, a half-written last line too, so that a resumed run doubles and loses none.
  // Lines before that which are not ours are taken out, and told by damages(). Throws IoError.
  explicit MetricsFile(std::filesystem::path path, Index keep_through = -1);

  // A line for each line that was taken out: its number, what was expected, what was found.
  const std::vector<std::string>& damages() const { return damages_; }

  // Append a line and hand it to the system. Throw IoError (a full disk, for one).
  void append(const Progress& progress);
  void append(const WatchFrame& frame);
  void append(const NonFinite& found);
  void append(const LossSpike& spike);

 private:
  void append_line(const std::string& text);

  std::vector<std::string> damages_;
  AppendFile file_;
};

// All complete lines of progress, in order. Throws IoError, and FormatError naming the line that is
// not ours; a last line without an end is left out.
std::vector<MetricsRow> read_metrics(const std::filesystem::path& path);

// What the watch has written, in order. Numbers that were not finite are NaN. Throws as
// read_metrics().
struct WatchLines {
  std::vector<WatchFrame> frames;
  std::vector<NonFinite> non_finite;
};
WatchLines read_watch(const std::filesystem::path& path);

}  // namespace prenorm
