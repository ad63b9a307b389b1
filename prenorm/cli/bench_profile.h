// The profile of a training step, as `bench train --profile` shows it: each part's time, its share
// of the step, and how close it comes to what limits it (the multiply-add peak or memory).
#pragma once
#include "prenorm/base/json.h"
#include "prenorm/cli/output.h"
#include "prenorm/cli/verb.h"
#include "prenorm/train/benchmark.h"

namespace prenorm::cli {

// What the parts are held against, GFLOP/s: the products of layers and head, and attention, whose
// products are in float32 always.
struct ProfileLimits {
  double products = 0.0, attention = 0.0;
};

// Both measure the memory's bandwidth first.
Json profile_json(const Runtime& run, const Profile& profile, const StepTimes& times,
                  const ProfileLimits& limits);
void print_profile(const Runtime& run, const Profile& profile, const StepTimes& times,
                   const ProfileLimits& limits, const Streams& streams);

}  // namespace prenorm::cli
