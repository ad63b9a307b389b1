// Where the number of a mistake is, ε or the mask's, whatever it is and however near the model's
// own: between two of a coarse scale, the chord from one replay to the other tells.
//
//   const NumberSearch search(run, evaluation, slots, arithmetic);
//   std::vector<NumberSearch::Found> found = search.coarse(families);  // a set each, any number
//   const Mistakes set = search.fine(found.front());
#pragma once
#include <span>
#include <vector>

#include "prenorm/study/diagnose_evaluation.h"

namespace prenorm {

class NumberSearch {
 public:
  // Of sets that go on from `start`. All must outlive this.
  NumberSearch(const Runtime& run, const Evaluation& evaluation, std::span<const Index> slots,
               const Mistakes& start, Arithmetic arithmetic);

  // A set whose mistakes beyond the start have numbers, and between which two of the scale these
  // leave least; `loss`: what the chord says that they leave (Score::loss).
  struct Found {
    Mistakes set;
    double low = 0.0, high = 0.0, loss = 0.0;
  };
  // Of each of these, with few numbers or with all of the scale. Sets must have one kind of number.
  std::vector<Found> coarse(std::span<const Mistakes> sets, bool all_numbers) const;
  // The set with its number there, to a thousandth or as near as the rounding lets see.
  Mistakes fine(const Found& found) const;
  // What the start leaves.
  double loss() const { return loss_; }

 private:
  struct Chord {
    double at = 0.0, loss = 0.0;  // in [0, 1] from one end to the other; what is left there
  };
  Mistakes with_number(Mistakes set, double number) const;
  Trace trace(const Mistakes& set) const;
  double loss_of(const Trace& trace) const;
  Chord chord(const Trace& from, const Trace& to) const;

  const Runtime& run_;
  const Evaluation& evaluation_;
  std::span<const Index> slots_;
  const Mistakes& start_;
  Arithmetic arithmetic_;
  Trace started_;
  double loss_;
};

// An ε of the set as people write it, a power of ten, where that explains the stages as well.
double epsilon_as_written(const Evaluation& evaluation, const Mistakes& set,
                          const MistakeChoice& choice, std::span<const Index> slots);

}  // namespace prenorm
