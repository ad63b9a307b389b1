#include "prenorm/study/diagnose_doubt.h"

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

// A dump of a clean run whose first norm is off by so many of its roundings, at random.
struct Doubt {
  DiagnoseModel model = small_diagnose_model();
  Runtime run{{.threads = 1}};
  DiagnoseInput input = dump_of(model, small_tokens(), {}, Dumped::kStages);

  Index first_norm() const { return StageList(model.layers()).of(0, Stage::kLn1); }
  void put_off_by(double times) {
    const Replay replay(run, model, input.problem);
    const Evaluation evaluation(run, replay, model.options(), input.numbers);
    const Index slot = first_norm();
    const double by = times * std::sqrt(evaluation.floor()[static_cast<std::size_t>(slot)]);
    Values off = *evaluation.base().at(slot).computed;
    for (Index i = 0; i < off.size(); ++i) off[i] += i % 2 == 0 ? by : -by;
    input.problem.theirs[slot] = std::make_shared<const Values>(std::move(off));
  }
  Diagnosis diagnosis() const { return diagnose(run, model, input, {}); }
};

TEST(DiagnoseDoubt, a_stage_that_is_off_by_three_roundings_is_no_mistake) {
  Doubt doubt;
  doubt.put_off_by(3.0);
  const Diagnosis found = doubt.diagnosis();
  EXPECT_EQ(found.status, DiagnosisStatus::kEqual);
  EXPECT_TRUE(found.mistakes.empty());
}

TEST(DiagnoseDoubt, one_that_is_off_by_a_hundred_is) {
  Doubt doubt;
  doubt.put_off_by(100.0);
  EXPECT_NE(doubt.diagnosis().status, DiagnosisStatus::kEqual);
}

TEST(DiagnoseDoubt, the_first_divergence_is_where_the_mistake_is) {
  Doubt doubt;
  doubt.input = dump_of(doubt.model, small_tokens(),
                        {{.name = "norm.ddof", .where = "transformer.h.1.ln_2"}}, Dumped::kStages);
  doubt.put_off_by(3.0);
  const Diagnosis found = doubt.diagnosis();
  ASSERT_EQ(found.mistakes.size(), 1u);
  EXPECT_EQ(found.mistakes.front().name, "norm.ddof");
  EXPECT_EQ(found.first_divergence, "transformer.h.1.ln_2");
}

}  // namespace
}  // namespace prenorm
