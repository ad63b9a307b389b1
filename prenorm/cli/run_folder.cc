#include "prenorm/cli/run_folder.h"

#include <system_error>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/folder.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/train/state.h"

namespace prenorm::cli {

bool RunFolder::holds_run() const {
  std::error_code ignored;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl"}) {
    if (std::filesystem::exists(path_ / name, ignored)) return true;
  }
  return holds_states(path_);
}

void RunFolder::open() {
  std::error_code error;
  if (lock_.held() || path_.empty() || !std::filesystem::is_directory(path_, error)) return;
  ensure_directory(path_);  // says best what is wrong with a folder that cannot be written
  lock_ = FileLock(path_ / ".lock");
  remove_leftovers(path_);
  // Earlier versions left a finished save to be moved over the old one.
  const std::filesystem::path finished = path_ / ".saved";
  if (std::filesystem::exists(finished, error)) move_files_durably(finished, path_);
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
  if (resume && !holds_states(path_) &&
      std::filesystem::exists(path_ / "model.safetensors", ignored)) {
    throw ConfigError("--resume: expected a training_state.json beside the weights in '" +
                      printable(path_.string()) +
                      "', found none; without it the optimizer would start anew; --force replaces "
                      "the run");
  }
}

void RunFolder::prepare(bool resume, bool replace) {
  ensure_directory(path_);
  if (!lock_.held()) {
    open();
    check(resume, replace);  // another one may have come and gone
  }
  if (replace) remove_states(path_);
}

void RunFolder::save(const Trainer& trainer, const Tokenizer& tokenizer, const Notes& notes) const {
  const Index iter = trainer.position().iter;
  sync_file(metrics());  // its lines up to here are as durable as the state
  save_state(path_, iter, [&](const std::filesystem::path& folder) {
    save_pretrained(trainer.model(), folder);
    tokenizer.save(folder);
    save_training_state(folder, trainer);
  });
  publish_state(path_, iter);
  finish_save(trainer);
  write_report(trainer, notes);
}

void RunFolder::finish_save(const Trainer& trainer) const {
  const Index iter = trainer.position().iter;
  const bool is_checkpoint = file_exists(checkpoint_folder(path_, iter));
  if (trainer.options().save_best && trainer.at_best() && is_checkpoint) mark_as_best(path_, iter);
  keep_newest(path_, iter, trainer.options().keep);
}

void RunFolder::write_report(const Trainer& trainer, const Notes& notes) const {
  TrainingReport report;
  report.title = std::filesystem::absolute(path_).lexically_normal().filename().string();
  report.model = trainer.model().config();
  report.options = trainer.options();
  report.parameters = trainer.model().parameters().total_size();
  report.metrics = read_metrics(metrics());
  report.watch = read_watch(metrics());
  report.interrupted = notes.interrupted;
  report.skipped_steps = trainer.position().skipped_steps;
  report.facts = notes.facts;
  report.samples = notes.samples;
  report.files = {{"config.json", "the model's shape, as transformers reads it"},
                  {"model.safetensors", "the weights"},
                  {"tokenizer.json", "text to tokens and back"},
                  {"training_state.json", "where training stands, for --resume"},
                  {"training_state.safetensors", "the optimizer's moments"},
                  {"checkpoint-" + std::to_string(trainer.position().iter),
                   "the same files as a state of its own; older ones beside it"},
                  {"metrics.jsonl", "the numbers of this page, one line an interval"}};
  write_file_durably(path_ / "report.html", training_report_html(report));
}

}  // namespace prenorm::cli
