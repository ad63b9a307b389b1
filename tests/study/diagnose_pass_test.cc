#include "prenorm/study/diagnose_pass.h"

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

Trace pass(const DiagnoseModel& model, const reference::GptOptions& options,
           Arithmetic arithmetic) {
  const Runtime run;
  const DiagnoseProblem problem = dump_of(model, small_tokens(), {}, Dumped::kLogits).problem;
  const StageList stages(model.layers());
  DiagnosePass one(run, model, problem, stages, options, nullptr, true, arithmetic);
  const Floats head = reference::transposed(model.parameters.embedding.wte);
  one.set_heads(head, {});
  return one.run();
}

TEST(DiagnosePass, a_module_that_is_not_called_has_no_stage) {
  const DiagnoseModel model = small_diagnose_model();
  const StageList stages(model.layers());
  const auto options = with_mistakes(model.options(), {{.name = "structure.no-final-norm"}});
  const Trace trace = pass(model, options, Arithmetic::kDouble);
  EXPECT_EQ(trace.at(stages.final_norm()).computed, nullptr);
  EXPECT_NE(trace.at(stages.logits()).computed, nullptr);
}

TEST(DiagnosePass, float_arithmetic_is_off_by_roundings) {
  const DiagnoseModel model = small_diagnose_model();
  const StageList stages(model.layers());
  const Values exact =
      *pass(model, model.options(), Arithmetic::kDouble).at(stages.logits()).computed;
  const Values rounded =
      *pass(model, model.options(), Arithmetic::kFloat).at(stages.logits()).computed;
  const double relative = std::sqrt(mean_square_difference(exact, rounded) / mean_square(exact));
  EXPECT_GT(relative, 1e-9);
  EXPECT_LT(relative, 1e-6);
}

TEST(DiagnosePass, a_post_norm_model_has_its_norms_after_the_sums) {
  DiagnoseModel model = small_diagnose_model();
  model.settings.norm = reference::NormPlacement::kPost;
  const StageList stages(model.layers());
  const Trace trace = pass(model, model.options(), Arithmetic::kDouble);
  EXPECT_EQ(*trace.at(stages.of(0, Stage::kBlock)).computed,
            *trace.at(stages.of(0, Stage::kLn2)).computed);
}

}  // namespace
}  // namespace prenorm
