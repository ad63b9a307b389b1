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

DiagnoseModel with_another_head(SmallModel size = {}) {
  DiagnoseModel model = small_diagnose_model(size);
  size.seed = 7;
  model.settings.tied = false;
  model.parameters.lm_head = small_diagnose_model(size).parameters.embedding.wte;
  return model;
}

// Of logits of few tokens.
bool known_to_be_another(const SmallModel& size, const DiagnoseModel& theirs,
                         const Mistakes& made = {}) {
  const DiagnoseModel model = small_diagnose_model(size);
  const Runtime run;
  const DiagnoseInput input = dump_of(theirs, small_tokens(size, 1, 6), made, Dumped::kLogits);
  const Replay replay(run, model, input.problem);
  return no_known_head_follows(model, replay.run(model.options()), input.problem);
}

TEST(DiagnoseHead, another_matrix_shows_with_more_tokens_than_features) {
  EXPECT_TRUE(another(with_another_head(), 2, 12, Dumped::kLogits));
  EXPECT_FALSE(another(with_another_head(), 1, 16, Dumped::kLogits));
}

TEST(DiagnoseHead, after_a_final_norm_that_is_right_any_other_logits_are_another_heads) {
  EXPECT_TRUE(another(with_another_head(), 1, 4, Dumped::kStages));
}

TEST(DiagnoseHead, few_tokens_of_a_large_vocabulary_show_that_a_head_is_another) {
  const SmallModel wide{.vocabulary = 101};
  EXPECT_TRUE(known_to_be_another(wide, with_another_head(wide)));
  EXPECT_TRUE(known_to_be_another(wide, with_another_head(wide), {{.name = "norm.rms"}}));
  EXPECT_FALSE(known_to_be_another(wide, small_diagnose_model(wide)));
  EXPECT_FALSE(
      known_to_be_another(wide, small_diagnose_model(wide), {{.name = "structure.no-final-norm"}}));
  const SmallModel narrow{.vocabulary = 20};  // no more than the width: anything may be a sum
  EXPECT_FALSE(known_to_be_another(narrow, with_another_head(narrow)));
}

TEST(DiagnoseHead, the_right_head_and_another_mistake_are_no_other_head) {
  EXPECT_FALSE(another(small_diagnose_model(), 2, 12, Dumped::kLogits));
  EXPECT_FALSE(another(small_diagnose_model(), 2, 12, Dumped::kLogits, {{.name = "norm.rms"}}));
}

}  // namespace
}  // namespace prenorm
