// What `prenorm train` tells while it runs, as text.
#pragma once
#include <string>

#include "prenorm/train/plan.h"
#include "prenorm/train/progress.h"

namespace prenorm::cli {

// iter 120/5000  loss 2.41  val 2.55  lr 6.0e-4  |g| 0.91  8.1k tok/s  ETA 12:40
std::string progress_line(const Progress& progress);

// Lines on what the run will cost, before its first step. `steps` are those to come, and
// plan.seconds is their time.
std::string plan_lines(const TrainingPlan& plan, const GptConfig& config, Index steps);

}  // namespace prenorm::cli
