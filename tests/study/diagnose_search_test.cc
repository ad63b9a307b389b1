#include "prenorm/study/diagnose_search.h"

#include <algorithm>

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

DiagnoseScope whole(const DiagnoseModel& model, const DiagnoseInput& input) {
  DiagnoseScope scope;
  for (const auto& [slot, values] : input.problem.theirs) scope.slots.push_back(slot);
  for (const MistakeChoice& m : choices_everywhere(model, input.problem.time)) {
    scope.likely.push_back({m});
  }
  return scope;
}

TEST(DiagnoseSearch, a_clean_run_is_clean_and_another_is_not) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run;
  for (const bool made : {false, true}) {
    const Mistakes mistakes = made ? Mistakes{{.name = "norm.ddof"}} : Mistakes{};
    const DiagnoseInput input = dump_of(model, small_tokens(), mistakes, Dumped::kStages);
    const DiagnoseSearch search(run, model, input.problem, input.numbers, {});
    EXPECT_EQ(search.clean(whole(model, input).slots), !made);
  }
}

TEST(DiagnoseScopes, a_dump_of_all_stages_has_one_a_block_and_one_at_the_end) {
  const DiagnoseModel model = small_diagnose_model();
  const DiagnoseInput stages = dump_of(model, small_tokens(), {}, Dumped::kStages);
  const auto scopes = diagnose_scopes(model, stages.problem);
  ASSERT_EQ(scopes.size(), 4u);
  EXPECT_EQ(scopes[0].slots.size(), 9u);  // with the embeddings
  EXPECT_EQ(scopes[3].slots.size(), 2u);  // the final norm and the logits
  const DiagnoseInput logits = dump_of(model, small_tokens(), {}, Dumped::kLogits);
  const auto whole = diagnose_scopes(model, logits.problem);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].slots.size(), 1u);
  EXPECT_GT(whole[0].others.size(), whole[0].likely.size());
}

TEST(DiagnoseSearch, mistakes_that_hide_each_other_are_found_as_a_pair) {
  const DiagnoseModel model = small_diagnose_model();
  const Runtime run;
  const Mistakes made{{.name = "attention.head-axes"}, {.name = "structure.residual-from-norm"}};
  const DiagnoseInput input = dump_of(model, small_tokens(), made, Dumped::kLogits);
  DiagnoseSearch search(run, model, input.problem, input.numbers, {});
  const Explanation found = search.explain(whole(model, input));
  EXPECT_TRUE(found.explained);
  ASSERT_EQ(found.mistakes.size(), 2u);
  EXPECT_GT(found.margin, 100.0);
  EXPECT_TRUE(found.alternatives.empty());
}

// From logits alone, where one of the two looks ahead: no first tokens tell it.
TEST(DiagnoseSearch, a_pair_that_looks_ahead_is_found_by_the_effects_of_each) {
  const Runtime run;
  const DiagnoseModel model = small_diagnose_model();
  const std::vector<Mistakes> pairs{
      {{.name = "structure.post-norm"}, {.name = "attention.no-split-transpose"}},
      {{.name = "attention.qkv-order", .text = "vkq"}, {.name = "attention.mask-inverted"}},
      {{.name = "norm.rms"}, {.name = "attention.mask-finite", .number = -2.0}},
      {{.name = "norm.axis"}, {.name = "attention.softmax-axis"}}};
  for (const Mistakes& made : pairs) {
    const DiagnoseInput input = dump_of(model, small_tokens({}, 1, 20), made, Dumped::kLogits);
    bool long_search = false;
    DiagnoseSearch search(run, model, input.problem, reference::Numbers::kFloat32,
                          [&](const std::string&) { long_search = true; });
    const auto scopes = diagnose_scopes(model, input.problem);
    ASSERT_EQ(scopes.size(), 1u);
    const Explanation found = search.explain(scopes.front());
    EXPECT_TRUE(found.explained) << made[0].name << " " << made[1].name;
    EXPECT_FALSE(long_search) << made[0].name << " " << made[1].name;
    ASSERT_EQ(found.mistakes.size(), 2u);
    for (const MistakeChoice& m : made) {
      EXPECT_TRUE(std::ranges::any_of(found.mistakes, [&](const MistakeChoice& other) {
        return other.where.empty() && other.name == m.name && other.text == m.text;
      })) << m.name;
    }
  }
}

TEST(DiagnoseSearch, what_nothing_explains_is_said_to_be_so) {
  const DiagnoseModel model = small_diagnose_model();
  const DiagnoseModel other = small_diagnose_model({.seed = 5});
  const Runtime run;
  const DiagnoseInput input = dump_of(other, small_tokens(), {}, Dumped::kLogits);
  bool told = false;
  DiagnoseSearch search(run, model, input.problem, input.numbers,
                        [&](const std::string&) { told = true; });
  EXPECT_FALSE(search.explain(whole(model, input)).explained);
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace prenorm
