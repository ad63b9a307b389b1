// Which two mistakes may together have moved the logits to where they are, by what each does by
// itself: what is to be explained is written as a sum of two effects, each taken in part. Two
// mistakes in one model are not that sum, but of all pairs the right one comes among the first.
//
//   DiagnoseEffects effects(theirs_minus_right);      // of the first tokens' logits
//   const std::size_t a = effects.add(moved_by_a), b = effects.add(moved_by_b);
//   effects.left(a, b);                               // the least comes first
#pragma once
#include <cstddef>
#include <vector>

#include "prenorm/study/diagnose_model.h"

namespace prenorm {

class DiagnoseEffects {
 public:
  // Some columns of it are looked at.
  explicit DiagnoseEffects(const Values& target);

  // Of the target's shape; returns its number, from 0.
  std::size_t add(const Values& effect);
  // The part of the target's square that the best sum of the two leaves; infinite where one of them
  // is not a number.
  double left(std::size_t a, std::size_t b) const;

 private:
  std::vector<double> some(const Values& x) const;

  std::vector<double> target_;
  double square_;
  std::vector<std::vector<double>> effects_;
  std::vector<double> along_;                 // of each: its product with the target
  std::vector<std::vector<double>> between_;  // and with those before it, and itself
};

}  // namespace prenorm
