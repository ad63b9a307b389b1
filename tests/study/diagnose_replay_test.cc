#include "prenorm/study/diagnose_replay.h"

#include "tests/study/diagnose_testing.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

using reference::Numbers;

// The largest difference over the largest number.
double apart(const Values& a, const Values& b) {
  double difference = 0.0, size = 0.0;
  for (Index i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(b[i]));
  }
  return difference / size;
}

TEST(Replay, computes_what_the_textbook_computes_with_every_mistake) {
  for (const bool tied : {true, false}) {
    const SmallModel size{.tied = tied};
    const DiagnoseModel model = small_diagnose_model(size);
    const Runtime run;
    for (const MistakeChoice& choice : choices_everywhere(model, 18)) {
      DiagnoseInput exact =
          dump_of(model, small_tokens(size), {choice}, Dumped::kLogits, Numbers::kExact);
      const Values theirs = *exact.problem.theirs.begin()->second;
      const Replay replay(run, model, exact.problem);
      const Trace trace = replay.run(with_mistakes(model.options(), {choice}));
      EXPECT_LE(apart(*trace.at(replay.stages().logits()).computed, theirs),
                tolerance::kDoubleSum * 10)
          << choice.name;
    }
  }
}

TEST(Replay, a_stage_is_replayed_from_the_dumps_own_input) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run;
  const DiagnoseInput input =
      dump_of(model, small_tokens(), {{.name = "norm.ddof", .where = "transformer.h.1.ln_1"}},
              Dumped::kStages);
  const Replay replay(run, model, input.problem);
  const Trace trace = replay.run(model.options());
  const Trace rounded = replay.rounded_run(model.options(), Numbers::kFloat32);
  for (const Index slot : replay.observed()) {
    const bool mistaken = replay.stages().name(slot) == "transformer.h.1.ln_1";
    const double times = trace.residual(slot) / replay.rounding(slot, trace, rounded);
    EXPECT_EQ(times > 6.25, mistaken) << replay.stages().name(slot) << " " << times;
  }
}

TEST(Replay, what_does_not_change_is_taken_from_the_trace_before) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run;
  const Replay replay(run, model, dump_of(model, small_tokens(), {}, Dumped::kLogits).problem);
  const Trace base = replay.run(model.options());
  const Mistakes made{{.name = "activation.relu", .where = "transformer.h.1"}};
  const Trace other = replay.run(with_mistakes(model.options(), made), &base);
  const StageList& stages = replay.stages();
  const Index changed = stages.of(1, Stage::kAct);
  for (Index slot = 0; slot < stages.count(); ++slot) {
    EXPECT_EQ(base.at(slot).computed == other.at(slot).computed, slot < changed)
        << stages.name(slot);
  }
}

TEST(Replay, threads_change_no_bit) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run(Runtime::Options{.threads = 3});
  const Replay replay(run, model, dump_of(model, small_tokens(), {}, Dumped::kLogits).problem);
  const Index logits = replay.stages().logits();
  EXPECT_EQ(*replay.run(model.options(), nullptr, true).at(logits).computed,
            *replay.run(model.options(), nullptr, false).at(logits).computed);
}

TEST(DiagnoseProblem, is_cropped_to_the_first_tokens_of_the_first_sequences) {
  const DiagnoseModel model = small_diagnose_model();
  const DiagnoseProblem problem =
      dump_of(model, small_tokens({}, 3, 8), {}, Dumped::kStages).problem;
  const DiagnoseProblem part = problem.cropped(2, 5);
  EXPECT_EQ(part.rows(), 10);
  EXPECT_EQ(part.tokens[5], problem.tokens[8]);
  for (const auto& [slot, values] : part.theirs) {
    EXPECT_EQ(values->rows(), 10);
    EXPECT_EQ((*values)(6, 3), (*problem.theirs.at(slot))(9, 3));
  }
}

}  // namespace
}  // namespace prenorm
