#include "prenorm/cli/run_folder.h"

#include <system_error>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/train/state.h"

namespace prenorm::cli {

bool RunFolder::holds_run() const {
  std::error_code ignored;
  for (const char* name : {"config.json", "model.safetensors", "training_state.json",
                           "tokenizer.json", "metrics.jsonl"}) {
    if (std::filesystem::exists(path_ / name, ignored)) return true;
  }
  return false;
}

bool RunFolder::holds_state() const { return has_training_state(path_); }

void RunFolder::recover() const {
  if (path_.empty()) return;
  std::error_code error;
  if (std::filesystem::exists(finished(), error)) move_files_durably(finished(), path_);
  std::filesystem::remove_all(unfinished(), error);
}

void RunFolder::check(bool resume, bool replace) const {
  if (resume && replace) throw ConfigError("--force: expected --resume or --force, found both");
  if (path_.empty()) throw ConfigError("--out-dir: expected a folder's name, found ''");
  if (holds_run() && !resume && !replace) {
    throw ConfigError("--out-dir: expected a new folder, found a run in '" +
                      printable(path_.string()) +
                      "'; --resume goes on with it, --force replaces it");
  }
  std::error_code ignored;
  if (resume && !holds_state() && std::filesystem::exists(path_ / "model.safetensors", ignored)) {
    throw ConfigError("--resume: expected a training_state.json beside the weights in '" +
                      printable(path_.string()) +
                      "', found none; without it the optimizer would start anew; --force replaces "
                      "the run");
  }
}

void RunFolder::prepare(bool replace) const {
  ensure_directory(path_);
  if (replace) {
    std::error_code ignored;
    std::filesystem::remove(path_ / "training_state.json", ignored);
    std::filesystem::remove(path_ / "training_state.safetensors", ignored);
  }
}

void RunFolder::save(const Trainer& trainer, const Tokenizer& tokenizer, const Notes& notes) const {
  recover();
  ensure_directory(unfinished());
  save_pretrained(trainer.model(), unfinished());
  tokenizer.save(unfinished());
  save_training_state(unfinished(), trainer);
  rename_folder_durably(unfinished(), finished());
  move_files_durably(finished(), path_);
  TrainingReport report;
  report.title = std::filesystem::absolute(path_).lexically_normal().filename().string();
  report.model = trainer.model().config();
  report.options = trainer.options();
  report.parameters = trainer.model().parameters().total_size();
  report.metrics = read_metrics(path_ / "metrics.jsonl");
  report.watch = read_watch(path_ / "metrics.jsonl");
  report.interrupted = notes.interrupted;
  report.skipped_steps = trainer.position().skipped_steps;
  report.facts = notes.facts;
  report.samples = notes.samples;
  report.files = {{"config.json", "the model's shape, as transformers reads it"},
                  {"model.safetensors", "the weights"},
                  {"tokenizer.json", "text to tokens and back"},
                  {"training_state.json", "where training stands, for --resume"},
                  {"training_state.safetensors", "the optimizer's moments"},
                  {"metrics.jsonl", "the numbers of this page, one line an interval"}};
  write_file_durably(path_ / "report.html", training_report_html(report));
}

}  // namespace prenorm::cli
