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
