#include "prenorm/study/diagnose_head.h"

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

bool another(const DiagnoseModel& theirs, Index batch, Index time, Dumped dumped,
             const Mistakes& made = {}) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run;
  const DiagnoseInput input = dump_of(theirs, small_tokens({}, batch, time), made, dumped);
  const Replay replay(run, model, input.problem);
  const Evaluation evaluation(run, replay, model.options(), input.numbers);
  return head_is_another(run, model, input, evaluation, 2.5);
}

DiagnoseModel with_another_head() {
  DiagnoseModel model = small_diagnose_model();
  model.settings.tied = false;
  model.parameters.lm_head = small_diagnose_model({.seed = 7}).parameters.embedding.wte;
  return model;
}

TEST(DiagnoseHead, another_matrix_shows_with_more_tokens_than_features) {
  EXPECT_TRUE(another(with_another_head(), 2, 12, Dumped::kLogits));
  EXPECT_FALSE(another(with_another_head(), 1, 16, Dumped::kLogits));
}

TEST(DiagnoseHead, after_a_final_norm_that_is_right_any_other_logits_are_another_heads) {
  EXPECT_TRUE(another(with_another_head(), 1, 4, Dumped::kStages));
}

TEST(DiagnoseHead, the_right_head_and_another_mistake_are_no_other_head) {
  EXPECT_FALSE(another(small_diagnose_model(), 2, 12, Dumped::kLogits));
  EXPECT_FALSE(another(small_diagnose_model(), 2, 12, Dumped::kLogits, {{.name = "norm.rms"}}));
}

}  // namespace
}  // namespace prenorm
