// The parts of a model that a dump lets be explained each on its own.
#include <utility>

#include "prenorm/study/diagnose_places.h"
#include "prenorm/study/diagnose_search.h"

namespace prenorm {

std::vector<DiagnoseScope> diagnose_scopes(const DiagnoseModel& model,
                                           const DiagnoseProblem& problem) {
  const StageList stages(model.layers());
  std::vector<DiagnoseScope> scopes;
  const auto within = [&](Index first, Index last) {
    std::vector<Index> slots;
    for (const auto& [slot, values] : problem.theirs) {
      if (slot >= first && slot <= last) slots.push_back(slot);
    }
    return slots;
  };
  const auto single = [](const Mistakes& mistakes, std::vector<Mistakes>& to) {
    for (const MistakeChoice& m : mistakes) to.push_back({m});
  };
  Index from = 0, first_slot = 0;
  for (Index l = 0; l < model.layers(); ++l) {
    const bool last = l + 1 == model.layers();
    const bool cut = problem.has(stages.of(l, Stage::kBlock));
    if (!cut && !last) continue;
    DiagnoseScope scope;
    const Index last_slot = cut ? stages.of(l, Stage::kBlock) : stages.logits();
    scope.slots = within(first_slot, last_slot);
    const bool whole = from == 0 && !cut;
    if (whole) {
      single(choices_everywhere(model, problem.time), scope.likely);
    } else if (from == 0) {
      for (const MistakeChoice& m : choices_everywhere(model, problem.time)) {
        if (m.name == "position.offset") scope.likely.push_back({m});
      }
    }
    auto& of_layers = from == l && !whole ? scope.likely : scope.others;
    for (Index k = from; k <= l && (!whole || model.layers() > 1); ++k) {
      single(choices_of_block(model, k), of_layers);
    }
    if (from < l && !whole) {  // the same mistake in all layers of the scope
      const Mistakes first = choices_of_block(model, from);
      for (std::size_t i = 0; i < first.size(); ++i) {
        Mistakes all;
        for (Index k = from; k <= l; ++k) all.push_back(moved_to_layer(first[i], k));
        scope.likely.push_back(std::move(all));
      }
    }
    if (!cut) single(choices_of_end(model), whole ? scope.others : scope.likely);
    if (!scope.slots.empty()) scopes.push_back(std::move(scope));
    if (cut && last) {
      DiagnoseScope end;
      end.slots = within(stages.final_norm(), stages.logits());
      single(choices_of_end(model), end.likely);
      if (!end.slots.empty()) scopes.push_back(std::move(end));
    }
    from = l + 1;
    first_slot = last_slot + 1;
  }
  return scopes;
}

}  // namespace prenorm
