// report.html of a training run: one file, readable offline, in light and in dark, without scripts.
//
//   write_file_durably(folder / "report.html", training_report_html(report));
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "prenorm/model/gpt_config.h"
#include "prenorm/train/metrics.h"
#include "prenorm/train/options.h"

namespace prenorm {

struct TrainingReport {
  std::string title;  // e.g. the run folder's name
  GptConfig model;
  TrainOptions options;
  Index parameters = 0;
  std::vector<MetricsRow> metrics;
  WatchLines watch;  // of a run with --watch
  bool interrupted = false;
  Index skipped_steps = 0;
  // Further rows of the summary: what, value. E.g. {"Data", "shakespeare.txt, 1,115,394 tokens"}.
  std::vector<std::pair<std::string, std::string>> facts;
  // Files of the run folder: name, what it is for.
  std::vector<std::pair<std::string, std::string>> files;
  // Texts that the model wrote: prompt, continuation.
  std::vector<std::pair<std::string, std::string>> samples;
};

std::string training_report_html(const TrainingReport& report);

}  // namespace prenorm
