#include "prenorm/study/diagnose_joint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

constexpr Index kTokens = 5;

// The logits of models with one mistake each, side by side and each alone.
void expect_as_alone(const DiagnoseModel& model, Arithmetic arithmetic, double tolerance) {
  const Runtime run;
  const DiagnoseInput input = dump_of(model, small_tokens({}, 1, kTokens), {}, Dumped::kLogits);
  const Replay replay(run, model, input.problem);
  std::vector<reference::GptOptions> options{model.options()};
  Mistakes made{{.name = "none"}};
  for (const MistakeChoice& m : choices_everywhere(model, kTokens)) {
    if (m.name == "norm.axis" || m.name == "position.offset") continue;  // see other tokens
    made.push_back(m);
    options.push_back(with_mistakes(model.options(), {m}));
  }
  ASSERT_GT(made.size(), 40u);
  const JointPass pass(run, replay, options, arithmetic);
  const Trace right = replay.run(model.options());
  const Values& embedded = *right.at(StageList(model.layers()).embedding()).used;
  Values x({static_cast<Index>(options.size()) * kTokens, embedded.columns()});
  for (Index i = 0; i < x.rows(); ++i) {
    std::copy_n(embedded.row(i % kTokens), x.columns(), x.row(i));
  }
  for (Index layer = 0; layer < model.layers(); ++layer) x = pass.block(layer, x);
  const Values logits = pass.end(x);
  ASSERT_EQ(logits.rows(), x.rows());
  for (std::size_t i = 0; i < options.size(); ++i) {
    const Trace alone = replay.run(options[i], nullptr, false, arithmetic);
    const Values& want = *alone.at(replay.stages().logits()).computed;
    double most = 0.0;
    for (Index k = 0; k < want.size(); ++k) {
      most = std::max(most, std::abs(want[k] - logits[static_cast<Index>(i) * want.size() + k]));
    }
    EXPECT_LE(most, tolerance) << made[i].name << " " << made[i].text;
  }
}

TEST(JointPass, members_compute_what_each_does_alone) {
  expect_as_alone(small_diagnose_model(), Arithmetic::kDouble, 0.0);
  expect_as_alone(small_diagnose_model(), Arithmetic::kQuick, 0.0);
}

TEST(JointPass, of_square_matrices_some_of_them_transposed_too) {
  expect_as_alone(small_diagnose_model({.inner = 16}), Arithmetic::kDouble, 0.0);
}

TEST(JointPass, of_a_post_norm_model_with_a_head_of_its_own_too) {
  DiagnoseModel model = small_diagnose_model({.tied = false});
  model.settings.norm = reference::NormPlacement::kPost;
  expect_as_alone(model, Arithmetic::kDouble, 0.0);
}

TEST(LogitsOfEach, are_those_of_each_model_alone) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run({.threads = 3});
  const DiagnoseInput input = dump_of(model, small_tokens({}, 1, 12), {}, Dumped::kLogits);
  const Replay replay(run, model, input.problem);
  std::vector<reference::GptOptions> options;
  for (const MistakeChoice& m : choices_everywhere(model, 12)) {
    if (m.name != "norm.axis") options.push_back(with_mistakes(model.options(), {m}));
  }
  ASSERT_GT(options.size(), 40u);
  const std::vector<Values> logits = logits_of_each(run, replay, options, Arithmetic::kDouble);
  for (std::size_t i = 0; i < options.size(); ++i) {
    const Trace alone = replay.run(options[i]);
    const Values& want = *alone.at(replay.stages().logits()).computed;
    ASSERT_EQ(logits[i].shape(), want.shape());
    EXPECT_LE(mean_square_difference(logits[i], want), 1e-28 * mean_square(want)) << i;
  }
}

}  // namespace
}  // namespace prenorm
