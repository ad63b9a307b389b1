#include "prenorm/study/diagnose_numbers.h"

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

// The set with its number where the search finds it, of a run with that number.
double found_number(const std::string& name, double made, Dumped dumped, bool all = true) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run({.threads = 2});
  const Mistakes mistakes{{.name = name, .number = made}};
  const DiagnoseInput input = dump_of(model, small_tokens(), mistakes, dumped);
  const Replay replay(run, model, input.problem);
  const Evaluation evaluation(run, replay, model.options(), input.numbers);
  const Mistakes start;
  const std::vector<Index>& slots = replay.observed();
  const NumberSearch search(run, evaluation, slots, start, Arithmetic::kDouble);
  const std::vector<Mistakes> sets{{{.name = name, .number = 1.0}}};
  const auto found = search.coarse(sets, all);
  EXPECT_LT(found.front().loss, search.loss()) << made;
  return *search.fine(found.front()).front().number;
}

TEST(NumberSearch, an_epsilon_near_the_models_own_and_any_other_is_found) {
  for (const double made : {7e-6, 1.2e-5, 3e-5, 2e-4, 0.04, 5.0}) {
    for (const Dumped dumped : {Dumped::kStages, Dumped::kLogits}) {
      EXPECT_NEAR(found_number("norm.eps-value", made, dumped), made, 0.1 * made);
    }
  }
}

TEST(NumberSearch, any_number_of_the_mask_is_found) {
  for (const double made : {-11.0, -7.0, -5.0, -3.3, -0.5, 0.7, 5.0}) {
    for (const Dumped dumped : {Dumped::kStages, Dumped::kLogits}) {
      const double found = found_number("attention.mask-finite", made, dumped);
      EXPECT_NEAR(found, made, 0.05 * std::abs(made));
    }
  }
}

TEST(NumberSearch, a_few_numbers_tell_where_to_look) {
  EXPECT_NEAR(found_number("norm.eps-value", 3e-5, Dumped::kStages, false), 3e-5, 3e-6);
  EXPECT_NEAR(found_number("attention.mask-finite", -6.0, Dumped::kStages, false), -6.0, 0.3);
}

}  // namespace
}  // namespace prenorm
