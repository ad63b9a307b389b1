#include "prenorm/study/diagnose_evaluation.h"

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

using reference::Numbers;

class EvaluationOf {
 public:
  EvaluationOf(const Mistakes& made, Dumped dumped)
      : model_(small_diagnose_model()),
        replay_(run_, model_, dump_of(model_, small_tokens(), made, dumped).problem),
        evaluation_(run_, replay_, model_.options(), Numbers::kFloat32) {}
  const Evaluation& operator*() const { return evaluation_; }
  Evaluation& operator*() { return evaluation_; }
  const std::vector<Index>& slots() const { return replay_.observed(); }

 private:
  Runtime run_;
  DiagnoseModel model_;
  Replay replay_;
  Evaluation evaluation_;
};

TEST(Evaluation, epsilon_is_found_from_logits_alone) {
  for (const double eps : {1e-6, 3e-4, 2e-2}) {
    const EvaluationOf of({{.name = "norm.eps-value", .number = eps}}, Dumped::kLogits);
    const Mistakes fitted = (*of).fitted({{.name = "norm.eps-value", .number = 1e-4}}, of.slots());
    EXPECT_NEAR(*fitted.front().number, eps, 0.1 * eps);
  }
}

TEST(Evaluation, the_masks_number_is_found) {
  const EvaluationOf of({{.name = "attention.mask-finite", .number = -2.5}}, Dumped::kLogits);
  const Mistakes fitted =
      (*of).fitted({{.name = "attention.mask-finite", .number = -1.0}}, of.slots());
  EXPECT_NEAR(*fitted.front().number, -2.5, 0.01);
}

TEST(Evaluation, the_masks_number_is_roughly_found_from_the_grid_beside_another_mistake) {
  for (const double number : {-5.0, -2.0, 0.4}) {
    const Mistakes made{{.name = "norm.rms"}, {.name = "attention.mask-finite", .number = number}};
    const EvaluationOf of(made, Dumped::kLogits);
    Mistakes set = made;
    set[1].number = number < -4.0 ? -10.0 : -1.0;
    const auto found = (*of).roughly_fitted(set, of.slots());
    ASSERT_TRUE(found) << number;
    EXPECT_EQ((*found)[0], made[0]);
    EXPECT_NEAR(*(*found)[1].number, number, 0.02) << number;
  }
}

TEST(Evaluation, no_number_is_roughly_found_where_the_mask_is_not_to_blame) {
  const EvaluationOf of({{.name = "structure.no-residual"}}, Dumped::kLogits);
  const Mistakes set{{.name = "attention.mask-finite", .number = -3.0}};
  EXPECT_FALSE((*of).roughly_fitted(set, of.slots()));
}

TEST(Evaluation, a_score_far_off_is_known_to_explain_nothing) {
  const Mistakes made{{.name = "norm.rms"}};
  const EvaluationOf of(made, Dumped::kLogits);
  const std::vector<Mistakes> sets{made, {{.name = "norm.ddof"}}};
  const std::vector<Score> scores = (*of).scores(sets, of.slots());
  EXPECT_FALSE((*of).far_off(scores[0], of.slots(), 2.5));
  EXPECT_TRUE((*of).far_off(scores[1], of.slots(), 2.5));
  EXPECT_FALSE((*of).explains(sets[1], of.slots(), 2.5));
}

TEST(Evaluation, a_score_tells_the_size_of_the_logits) {
  const EvaluationOf of({}, Dumped::kLogits);
  const Mistakes set{{.name = "structure.no-final-norm"}};
  const Trace trace = (*of).trace(set);
  const Index slot = of.slots().front();
  const double size =
      mean_square(*trace.at(slot).computed) / mean_square(*(*of).base().at(slot).computed);
  EXPECT_NEAR((*of).score(trace, of.slots()).size, size, 1e-9 * size);
  EXPECT_NEAR((*of).base_score(of.slots()).size, 1.0, 1e-12);
}

TEST(Evaluation, the_first_rows_of_single_mistakes_are_kept_when_asked_for) {
  EvaluationOf of({{.name = "norm.rms"}}, Dumped::kLogits);
  const std::vector<Mistakes> sets{{{.name = "norm.ddof"}},
                                   {{.name = "norm.ddof"}, {.name = "activation.relu"}}};
  (*of).scores(std::span(sets).subspan(0, 1), of.slots());
  const auto print = [&](const Mistakes& set) {
    return fingerprint(with_mistakes((*of).right(), set));
  };
  EXPECT_EQ((*of).first_rows(print(sets[0])), nullptr);
  (*of).keep_first_rows(5);
  const std::vector<Mistakes> more{{{.name = "attention.no-mask"}}, sets[1]};
  (*of).scores(more, of.slots());
  const Values* rows = (*of).first_rows(print(more[0]));
  ASSERT_NE(rows, nullptr);
  const Values whole = *(*of).trace(more[0]).at(of.slots().front()).computed;
  EXPECT_LE(mean_square_difference(*rows, row_range(whole, 0, 5)), 1e-28 * mean_square(whole));
  EXPECT_EQ((*of).first_rows(print(more[1])), nullptr);
}

TEST(Evaluation, the_right_set_explains_and_scores_best) {
  const Mistakes made{{.name = "norm.ddof"}, {.name = "activation.gelu-quick"}};
  const EvaluationOf of(made, Dumped::kLogits);
  const std::vector<Mistakes> sets{{made[0]}, {made[1]}, made, {{.name = "norm.rms"}}};
  const std::vector<Score> scores = (*of).scores(sets, of.slots());
  for (const std::size_t other : {0u, 1u, 3u}) EXPECT_GT(scores[other].cost, scores[2].cost + 5);
  EXPECT_TRUE((*of).explains(made, of.slots(), 2.5));
  EXPECT_FALSE((*of).explains(sets[0], of.slots(), 2.5));
}

TEST(Evaluation, a_mistake_costs_its_own_stages_alone) {
  const EvaluationOf of({{.name = "activation.relu"}}, Dumped::kStages);
  const double base = (*of).base_score(of.slots()).cost;
  const double one =
      (*of)
          .score((*of).trace({{.name = "activation.relu", .where = "transformer.h.0"}}), of.slots())
          .cost;
  const double all = (*of).score((*of).trace({{.name = "activation.relu"}}), of.slots()).cost;
  EXPECT_GT(base, one + 10);
  EXPECT_GT(one, all + 20);
}

}  // namespace
}  // namespace prenorm
