// A report with all its parts, for the tests of the growth pictures.
#pragma once
#include <string>

#include "prenorm/report/growth_report.h"

namespace prenorm {

inline GrowthReport small_growth_report() {
  GrowthReport report;
  report.stack = {.layers = 6, .width = 16, .tokens = 8};
  report.stacks = stack_growth(report.stack);
  GrowthCurve pre;
  pre.name = "pre-norm";
  pre.meaning = "It grows.";
  pre.forward = {1.0, 2.0, 3.0};
  pre.branch = {1.0, 1.0};
  pre.backward = {0.3, 0.2, 0.1};
  pre.parameters = {5.0, 4.0};
  GrowthCurve post = pre;
  post.name = "post-norm";
  report.initial = {{pre, "pre-norm"}, {post, "post-norm"}};
  report.tokens = "notes.txt";
  report.checkpoint = ModelGrowth{pre, "run <1>"};
  StabilityReport training;
  for (const NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
    StabilityRun run;
    run.norm = norm;
    run.layers = 12;
    for (int i = 0; i < 100; ++i) {
      run.losses.push_back(norm == NormPlacement::kPre ? 4.0 - 0.02 * i : 4.0);
    }
    training.runs.push_back(run);
  }
  training.recipe.warmup_iters = 0;
  training.unigram_entropy = 3.9;
  training.text = "notes.txt";
  report.training = training;
  return report;
}

}  // namespace prenorm
