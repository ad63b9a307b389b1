// The profile of a training step, as `bench train --profile` shows it: each part's time, its share
// of the step, and how close it comes to what limits it (the multiply-add peak or memory).
#pragma once
#include "prenorm/base/json.h"
#include "prenorm/cli/output.h"
#include "prenorm/cli/verb.h"
#include "prenorm/train/benchmark.h"

namespace prenorm::cli {

// `peak`: GFLOP/s. Both measure the memory's bandwidth first.
Json profile_json(const Runtime& run, const Profile& profile, const StepTimes& times, double peak);
void print_profile(const Runtime& run, const Profile& profile, const StepTimes& times, double peak,
                   const Streams& streams);

}  // namespace prenorm::cli
