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
  const Replay few_replay(run, model, input.problem.cropped(1, kFew));
  const Evaluation few(run, few_replay, model.options(), Numbers::kFloat32);
  const DiagnoseCrowd crowd(run, whole, few, start);
  std::vector<Mistakes> sets;
  const auto add = [&](const Mistakes& more) {
    Mistakes set = start;
    set.insert(set.end(), more.begin(), more.end());
    if (DiagnoseCrowd::takes(set, start)) sets.push_back(set);
  };
  for (const DiagnoseScope& scope : diagnose_scopes(model, input.problem)) {
    for (const Mistakes& other : scope.others) add(other);
    ASSERT_GT(sets.size(), 100u);
    for (const Mistakes& likely : scope.likely) {
      add(likely);
      if (likely.front().name != "norm.ddof") add({likely.front(), {.name = "norm.ddof"}});
    }
    ASSERT_GT(sets.size(), 160u);
  }
  const std::vector<Values> logits = crowd.logits(sets);
  const double unit = residual(whole, start, kFew) / crowd.start_score().loss;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const double want = residual(whole, sets[i], kFew) / unit;
    EXPECT_NEAR(crowd.score_of(logits[i]).loss, want, 1e-6 * want)
        << sets[i].back().name << " " << sets[i].back().text << " " << sets[i].back().where;
  }
}

TEST(DiagnoseCrowd, scores_each_mistake_and_pair_as_replays_of_every_token_do) {
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

TEST(DiagnoseCrowd, takes_what_a_few_tokens_tell) {
  const auto takes = [](const Mistakes& set, const Mistakes& start = {}) {
    return DiagnoseCrowd::takes(set, start);
  };
  const Mistakes relu{{.name = "activation.relu"}};
  EXPECT_TRUE(takes({{.name = "norm.ddof"}}));
  EXPECT_TRUE(takes({{.name = "norm.ddof"}, {.name = "structure.post-norm"}}));
  EXPECT_TRUE(takes({{.name = "norm.axis", .where = "transformer.h.1.ln_2"}}));
  EXPECT_TRUE(takes({relu[0], {.name = "attention.no-mask", .where = "transformer.h.1"}}, relu));
  EXPECT_FALSE(takes({relu[0], {.name = "attention.no-mask", .where = "transformer.h.1"}}));
  EXPECT_FALSE(takes({{.name = "attention.no-mask"}}));
  EXPECT_FALSE(takes({{.name = "norm.axis", .where = "transformer.ln_f"}}));
}

TEST(DiagnoseCrowd, serves_logits_of_one_sequence_that_is_longer) {
  const DiagnoseModel model = small_diagnose_model();
  const StageList stages(model.layers());
  const DiagnoseInput logits = dump_of(model, small_tokens({}, 1), {}, Dumped::kLogits);
  const DiagnoseInput all = dump_of(model, small_tokens({}, 1), {}, Dumped::kStages);
  EXPECT_TRUE(DiagnoseCrowd::serves(logits.problem, stages, kFew));
  EXPECT_FALSE(DiagnoseCrowd::serves(all.problem, stages, kFew));
  EXPECT_FALSE(DiagnoseCrowd::serves(logits.problem.cropped(1, kFew), stages, kFew));
}

}  // namespace
}  // namespace prenorm
