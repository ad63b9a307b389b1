// metrics.jsonl: one JSON object a line for each progress line of a run.
//
//   {"iter":120,"loss":2.41,"lr":0.0006,"grad_norm":0.91,"tokens_per_second":8100,"elapsed":33.1}
//
// "val_loss" is there where an evaluation was made. A number that is not finite is null.
#pragma once
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

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
  // Throws IoError.
  explicit MetricsFile(std::filesystem::path path, Index keep_through = -1);

  // Appends a line and hands it to the system. Throws IoError (a full disk, for one).
  void append(const Progress& progress);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// All complete lines, in order. Throws IoError, and FormatError naming the line that is not ours;
// a last line without an end is left out.
std::vector<MetricsRow> read_metrics(const std::filesystem::path& path);

}  // namespace prenorm
