// A training step cut into pieces that ranks compute side by side. A piece lies within one
// micro-batch and begins a multiple of 256 tokens after the micro-batch's beginning, where the sums
// over tokens have the bits of the whole micro-batch's: so no bit depends on the cut.
//
//   const StepPieces pieces(batch_size, accumulation_steps, block_size, ranks);
//   for (std::size_t p = rank; p < pieces.list().size(); p += ranks) compute(pieces.list()[p]);
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "prenorm/base/index.h"

namespace prenorm {

struct StepPiece {
  Index first_sequence = 0, sequences = 0;  // of the step
  bool begins_micro_batch = false;
};

class StepPieces {
 public:
  StepPieces(Index batch_size, Index micro_batches, Index block_size, int ranks);

  const std::vector<StepPiece>& list() const { return list_; }  // in ascending order
  // The share of the ranks' time that has work, 0 to 1.
  double efficiency() const;
  // Where that is less than nine tenths: one line on what to change.
  std::optional<std::string> notice() const;

 private:
  void cut(Index pieces_a_batch);
  Index largest_load() const;

  Index batch_size_, micro_batches_, ranks_;
  Index unit_;  // sequences whose tokens are a multiple of 256
  std::vector<StepPiece> list_;
};

}  // namespace prenorm
