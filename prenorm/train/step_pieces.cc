#include "prenorm/train/step_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "prenorm/kernels/matmul.h"

namespace prenorm {
namespace {

// A piece of fewer tokens is slower for each of them than a larger one, and its gradient as long to
// send.
constexpr Index kSmallPiece = 1024;
constexpr Index kPiecesEach = 2;  // where they are large enough
constexpr double kGoodEnough = 0.9;

}  // namespace

// A rank lags one stage of a piece behind the one before it: with two pieces instead of one for
// each rank, half of the time. More would be messages for little.
StepPieces::StepPieces(Index batch_size, Index micro_batches, Index block_size, int ranks)
    : batch_size_(batch_size),
      micro_batches_(micro_batches),
      ranks_(ranks),
      unit_(kernels::kTokenBlock / std::gcd(kernels::kTokenBlock, block_size)) {
  cut(1);
  if (ranks_ == 1) return;
  const Index most = ceil_div(batch_size_, unit_);
  std::vector<StepPiece> best = list_;
  Index load = largest_load();
  for (Index count = 2; count <= std::min(most, kPiecesEach * ranks_); ++count) {
    cut(count);
    const Index now = largest_load(), pieces = static_cast<Index>(best.size());
    const bool large = batch_size_ / count * block_size >= kSmallPiece;
    const bool smaller_lags = pieces < kPiecesEach * ranks_ && now == load && large;
    if (now < load || smaller_lags) {
      best = list_;
      load = now;
    }
  }
  list_ = std::move(best);
}

// Each micro-batch into as many pieces of whole units, as equal as they can be.
void StepPieces::cut(Index pieces_a_batch) {
  list_.clear();
  const Index units = ceil_div(batch_size_, unit_);
  for (Index micro = 0; micro < micro_batches_; ++micro) {
    for (Index piece = 0; piece < pieces_a_batch; ++piece) {
      const Index begin = std::min(batch_size_, unit_ * (units * piece / pieces_a_batch));
      const Index end = std::min(batch_size_, unit_ * (units * (piece + 1) / pieces_a_batch));
      list_.push_back({micro * batch_size_ + begin, end - begin, piece == 0});
    }
  }
}

// Sequences of the rank that has most of them.
Index StepPieces::largest_load() const {
  std::vector<Index> load(static_cast<std::size_t>(ranks_), 0);
  for (std::size_t p = 0; p < list_.size(); ++p) load[p % load.size()] += list_[p].sequences;
  return *std::ranges::max_element(load);
}

double StepPieces::efficiency() const {
  return static_cast<double>(batch_size_ * micro_batches_) /
         static_cast<double>(ranks_ * largest_load());
}

std::optional<std::string> StepPieces::notice() const {
  if (efficiency() >= kGoodEnough) return std::nullopt;
  return fmt::format(
      "{} ranks are at work {:.0f} % of the time: a step of {} times {} windows is cut after every "
      "{}; a batch-size times gradient-accumulation-steps that is a multiple of {} keeps all at "
      "work",
      ranks_, 100.0 * efficiency(), micro_batches_, batch_size_, unit_, ranks_ * unit_);
}

}  // namespace prenorm
