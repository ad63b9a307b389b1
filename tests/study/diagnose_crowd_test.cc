#include "prenorm/study/diagnose_crowd.h"

#include <algorithm>
#include <cmath>

#include "prenorm/study/diagnose_search.h"
#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

using reference::Numbers;

constexpr Index kTokens = 18;

// Mean square of what a set leaves of the first `rows` logits, with every token replayed.
double residual(const Evaluation& whole, const Mistakes& set, Index rows) {
  const Index slot = whole.replay().stages().logits();
  const Trace trace = whole.trace(set);
  const auto first = [&](const Values& x) {
    Values out({rows, x.columns()});
    std::copy_n(x.row(0), out.size(), out.row(0));
    return out;
  };
  return mean_square_difference(first(*trace.at(slot).computed),
                                first(*whole.replay().problem().theirs.at(slot)));
}

// How many tokens the crowd looks at: those whose residual alone tells its scores.
constexpr Index kFew = 3;

void expect_whole_replays_scores(const DiagnoseModel& model, const Mistakes& start) {
  const Runtime run({.threads = 3});
  const DiagnoseInput input =
      dump_of(model, small_tokens({}, 1, kTokens), {{.name = "norm.rms"}}, Dumped::kLogits);
  const Replay replay(run, model, input.problem);
  const Evaluation whole(run, replay, model.options(), Numbers::kFloat32);
  const DiagnoseCrowd crowd(run, whole, Numbers::kFloat32, start);
  std::vector<Mistakes> sets;
  for (const DiagnoseScope& scope : diagnose_scopes(model, input.problem)) {
    for (const Mistakes& other : scope.others) {
      if (other.front().name == "norm.axis" && other.front().where == "transformer.ln_f") continue;
      sets.push_back(start);
      sets.back().insert(sets.back().end(), other.begin(), other.end());
    }
  }
  ASSERT_GT(sets.size(), 100u);
  const std::vector<Score> scores = crowd.scores(sets);
  const double unit = residual(whole, start, kFew) / crowd.start_score().loss;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    ASSERT_TRUE(crowd.takes(sets[i]));
    const double want = residual(whole, sets[i], kFew) / unit;
    EXPECT_NEAR(scores[i].loss, want, 1e-6 * want)
        << sets[i].back().name << " " << sets[i].back().text << " " << sets[i].back().where;
  }
}

TEST(DiagnoseCrowd, scores_each_layers_mistakes_as_replays_of_every_token_do) {
  expect_whole_replays_scores(small_diagnose_model(), {});
}

TEST(DiagnoseCrowd, beside_a_mistake_that_is_everywhere_too) {
  expect_whole_replays_scores(small_diagnose_model(), {{.name = "activation.relu"}});
}

TEST(DiagnoseCrowd, in_a_post_norm_model_with_a_head_of_its_own_too) {
  DiagnoseModel model = small_diagnose_model({.tied = false});
  model.settings.norm = reference::NormPlacement::kPost;
  expect_whole_replays_scores(model, {});
}

TEST(DiagnoseCrowd, takes_what_is_in_one_layer_or_at_the_end) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run;
  const DiagnoseInput input = dump_of(model, small_tokens({}, 1), {}, Dumped::kLogits);
  const Replay replay(run, model, input.problem);
  const Evaluation whole(run, replay, model.options(), Numbers::kFloat32);
  const DiagnoseCrowd crowd(run, whole, Numbers::kFloat32);
  EXPECT_TRUE(crowd.takes({{.name = "norm.ddof", .where = "transformer.h.1.ln_2"}}));
  EXPECT_TRUE(crowd.takes({{.name = "norm.ddof", .where = "transformer.ln_f"}}));
  EXPECT_TRUE(crowd.takes({{.name = "structure.no-final-norm"}}));
  EXPECT_FALSE(crowd.takes({{.name = "norm.ddof"}}));
  EXPECT_FALSE(crowd.takes({{.name = "norm.axis", .where = "transformer.ln_f"}}));
  const StageList stages(model.layers());
  EXPECT_TRUE(DiagnoseCrowd::serves(input.problem, stages));
  EXPECT_FALSE(DiagnoseCrowd::serves(
      dump_of(model, small_tokens({}, 1), {}, Dumped::kStages).problem, stages));
  EXPECT_FALSE(DiagnoseCrowd::serves(input.problem.cropped(1, 2), stages));
}

}  // namespace
}  // namespace prenorm
