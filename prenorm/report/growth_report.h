// What `prenorm growth` has measured, as pictures: a page to keep and a text for the terminal.
//
//   std::fputs(growth_text(report).c_str(), stdout);
//   write_file_durably("growth.html", growth_html(report));
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "prenorm/study/growth.h"
#include "prenorm/train/stability.h"

namespace prenorm {

// A model's growth and what it was measured on.
struct ModelGrowth {
  GrowthCurve curve;
  std::string name;  // "pre-norm, at initialisation", "run"
};

struct StabilityReport {
  std::vector<StabilityRun> runs;
  TrainOptions recipe;
  double unigram_entropy = 0.0;
  std::string text;  // what they were trained on
  bool interrupted = false;
};

struct GrowthReport {
  StackOptions stack;
  std::vector<GrowthCurve> stacks;
  std::vector<ModelGrowth> initial;  // pre-norm, post-norm
  std::string tokens;                // what the models read: "512 tokens of notes.txt"
  std::optional<ModelGrowth> checkpoint;
  std::optional<StabilityReport> training;
};

std::string growth_text(const GrowthReport& report);
std::string growth_html(const GrowthReport& report);

// "12 layers, pre-norm"
std::string stability_name(const StabilityRun& run);
// What became of a run: "learns", "stuck at the tokens' frequencies", "breaks down", …
std::string stability_verdict(const StabilityRun& run, double unigram_entropy);

}  // namespace prenorm
