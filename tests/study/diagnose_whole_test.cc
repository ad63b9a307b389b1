#include "prenorm/study/diagnose_whole.h"

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

TEST(DiagnoseWhole, finds_the_sequence_that_is_off) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run;
  DiagnoseInput input = dump_of(model, small_tokens({}, 4, 6), {}, Dumped::kLogits);
  const Index logits = StageList(model.layers()).logits();
  Values theirs = *input.problem.theirs.at(logits);
  for (Index n = 12; n < 18; ++n) theirs(n, 3) += 0.5;
  input.problem.theirs[logits] = std::make_shared<const Values>(theirs);
  EXPECT_EQ(furthest_sequence(run, model, input.problem), 2);
}

TEST(DiagnoseWhole, a_mistake_in_a_later_sequence_alone_is_not_equal) {
  const DiagnoseModel model = small_diagnose_model();
  const reference::Tokens tokens = small_tokens({}, 6, 20);
  DiagnoseInput input = dump_of(model, tokens, {}, Dumped::kLogits);
  const DiagnoseInput other = dump_of(model, tokens, {{.name = "norm.rms"}}, Dumped::kLogits);
  const Index logits = StageList(model.layers()).logits();
  Values theirs = *input.problem.theirs.at(logits);
  const Values& wrong = *other.problem.theirs.at(logits);
  for (Index n = 100; n < 120; ++n) {
    for (Index v = 0; v < theirs.columns(); ++v) theirs(n, v) = wrong(n, v);
  }
  input.problem.theirs[logits] = std::make_shared<const Values>(theirs);
  const Diagnosis found = diagnose(Runtime(), model, input);
  EXPECT_NE(found.status, DiagnosisStatus::kEqual);
}

TEST(DiagnoseWhole, columns_that_the_search_left_out_count) {
  const DiagnoseModel model = small_diagnose_model();
  DiagnoseInput input = dump_of(model, small_tokens(), {}, Dumped::kLogits);
  // The search sees the first half of the vocabulary; a column of the other is off.
  input.problem.logit_columns.resize(20);
  const Index slot = StageList(model.layers()).logits();
  const Values all = *input.problem.theirs.at(slot);
  Values part({all.rows(), 20});
  for (Index n = 0; n < all.rows(); ++n) std::copy_n(all.row(n), 20, part.row(n));
  input.problem.theirs[slot] = std::make_shared<const Values>(part);
  EXPECT_EQ(diagnose(Runtime(), model, input).status, DiagnosisStatus::kEqual);
  for (Index n = 0; n < all.rows(); ++n) input.logits(n, 30) += 0.25f;
  EXPECT_EQ(diagnose(Runtime(), model, input).status, DiagnosisStatus::kUnknown);
}

}  // namespace
}  // namespace prenorm
