// The files of a training run: what stands in the folder before it, and what each save writes.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/report/training_report.h"
#include "prenorm/text/tokenizer.h"
#include "prenorm/train/trainer.h"

namespace prenorm::cli {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  // Whether a run or a model is there already.
  bool holds_run() const;
  bool holds_state() const;

  // Call first: finishes a save that was cut off after all of it was written, and removes one that
  // was cut off before. Throws IoError.
  void recover() const;
  // Throws ConfigError where a run is there and is neither to be resumed nor replaced, or is to be
  // resumed and has weights without a state, which starting anew would lose.
  void check(bool resume, bool replace) const;
  // Makes the folder. With `replace`, a state that is there is removed, so that nothing goes on
  // with it. Throws IoError where nothing can be written.
  void prepare(bool replace) const;

  // What the report says beside the run's own numbers.
  struct Notes {
    std::vector<std::pair<std::string, std::string>> facts, samples;
    bool interrupted = false;
  };
  // Model, tokenizer, training state and report. The first three belong together: they are written
  // to a folder beside them, whose renaming makes the save count, and then moved over the old ones.
  // Throws IoError.
  void save(const Trainer& trainer, const Tokenizer& tokenizer, const Notes& notes) const;

 private:
  std::filesystem::path unfinished() const { return path_ / ".saving"; }
  std::filesystem::path finished() const { return path_ / ".saved"; }

  std::filesystem::path path_;
};

}  // namespace prenorm::cli
