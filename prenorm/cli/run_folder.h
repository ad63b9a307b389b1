// The files of a training run: what stands in the folder before it, and what each save writes.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/base/file_lock.h"
#include "prenorm/report/training_report.h"
#include "prenorm/text/tokenizer.h"
#include "prenorm/train/run_states.h"
#include "prenorm/train/trainer.h"

namespace prenorm::cli {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  // Whether a run or a model is there already.
  bool holds_run() const;

  // Call first. Where the folder is there: keeps other trainings out of it for as long as this
  // lives, and removes what a killed one has left. Throws IoError where another one is at work.
  void open();
  // Throws ConfigError where a run is there and is neither to be resumed nor replaced, or is to be
  // resumed and has weights without a state, which starting anew would lose.
  void check(bool resume, bool replace) const;
  // The newest whole state (run_states.h).
  std::optional<ChosenState> state() const { return choose_state(path_); }
  // Makes the folder, and opens it if that could not be done before. With `replace`, states that
  // are there are removed, so that nothing goes on with them. Throws IoError where nothing can be
  // written.
  void prepare(bool resume, bool replace);

  // What the report says beside the run's own numbers.
  struct Notes {
    std::vector<std::pair<std::string, std::string>> facts, samples;
    bool interrupted = false;
  };
  // Of a resumed run: what its last save did not come to, where the process was killed in it after
  // the state was whole. Throws IoError.
  void finish_save(const Trainer& trainer) const;
  // Model, tokenizer and training state as a new state of the run, then the report. Older states
  // than options().keep go. Throws IoError; the states before are then as they were.
  void save(const Trainer& trainer, const Tokenizer& tokenizer, const Notes& notes) const;

 private:
  void write_report(const Trainer& trainer, const Notes& notes) const;

  std::filesystem::path path_;
  FileLock lock_;
};

}  // namespace prenorm::cli
