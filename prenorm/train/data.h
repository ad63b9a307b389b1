// The tokens a run trains on and is measured on: Corpus's two parts, or any others.
#pragma once
#include <cstdint>
#include <span>

#include "prenorm/base/index.h"

namespace prenorm {

// Views; the tokens must outlive the trainer.
struct TrainData {
  std::span<const TokenId> train;
  std::span<const TokenId> validation;  // empty: the run is not evaluated
};

// A number that tells data sets apart: of the tokens and where they are split.
std::uint64_t fingerprint(const TrainData& data);

}  // namespace prenorm
