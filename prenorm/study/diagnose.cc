#include "prenorm/study/diagnose.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "prenorm/study/diagnose_doubt.h"
#include "prenorm/study/diagnose_head.h"
#include "prenorm/study/diagnose_numbers.h"
#include "prenorm/study/diagnose_places.h"
#include "prenorm/study/diagnose_search.h"
#include "prenorm/study/diagnose_whole.h"

namespace prenorm {
namespace {

using reference::Numbers;

constexpr double kCleanTimes = 2.5;      // within so many roundings a stage is right
constexpr double kRoundingTimes = 12.0;  // and within so many, where no mistake explains it, too

bool narrow(Numbers numbers) {
  return numbers == Numbers::kBfloat16 || numbers == Numbers::kFloat16;
}

class Diagnoser {
 public:
  Diagnoser(const Runtime& run, const DiagnoseModel& model, const DiagnoseInput& input,
            const std::function<void(const std::string&)>& progress)
      : run_(run),
        model_(model),
        input_(input),
        sequence_(furthest_sequence(run, model, input.problem)),
        search_(run, model, input.problem.with_first(sequence_), input.numbers, progress) {}

  // How far their logits are from what our head makes of their final norm, if by another head.
  std::optional<double> another_head() const {
    return another_head_follows(model_, input_, evaluation());
  }

  Diagnosis diagnose() {
    out_.numbers = input_.numbers;
    describe_stages();
    for (const DiagnoseScope& scope : diagnose_scopes(model_, input_.problem)) {
      if (!search_.clean(scope.slots)) explain(scope);
    }
    merge_places();
    check_alternatives();
    if (unexplained_ && input_.logits_only) try_another_head();
    check_whole_vocabulary();
    settle();
    return std::move(out_);
  }

 private:
  const Evaluation& evaluation() const { return search_.evaluation(); }

  void describe_stages() {
    const Evaluation& e = evaluation();
    const StageList& stages = e.replay().stages();
    for (const Index slot : e.replay().observed()) {
      const double size = mean_square(*e.replay().problem().theirs.at(slot));
      const double floor = e.floor()[static_cast<std::size_t>(slot)];
      const TracedStage& stage = e.base().at(slot);
      DivergedStage row{.name = stages.name(slot)};
      row.relative = std::sqrt(stage.residual / std::max(size, 1e-300));
      row.rounding = std::sqrt(floor / std::max(size, 1e-300));
      row.departs = !search_.clean(std::span(&slot, 1));
      out_.stages.push_back(row);
    }
  }

  // The layers before often tell what this one has.
  Explanation explanation_of(const DiagnoseScope& scope) {
    const auto layer = evaluation().replay().stages().layer(scope.slots.back());
    Mistakes moved;
    for (const MistakeChoice& m : before_) {
      if (!m.where.starts_with("transformer.h.")) continue;
      moved.push_back(layer ? moved_to_layer(m, *layer) : m);
      if (layer) continue;
      moved.back().where = "transformer.ln_f";
      if (reference::find_mistake(m.name).in_norm == nullptr) moved.pop_back();
    }
    if (auto same = search_.same_as(moved, scope)) return *same;
    return search_.explain(scope);
  }

  // Logits that come through no head of ours need no search before it.
  bool beyond_search() const {
    return input_.logits_only && model_.has_head &&
           no_known_head_follows(model_, evaluation().base(), evaluation().replay().problem());
  }

  void explain(const DiagnoseScope& scope) {
    const Explanation found = beyond_search() ? Explanation() : explanation_of(scope);
    if (!narrow(input_.numbers) && is_a_guess(evaluation(), scope.slots, found)) return;
    if (found.explained) before_ = found.mistakes;
    if (!found.explained && far_off(scope, found.mistakes)) {
      const bool end = std::ranges::any_of(
          scope.slots, [&](Index slot) { return slot == evaluation().replay().stages().logits(); });
      if (end && untied_head()) {
        places_.push_back({{.name = "weights.untied-head"}, 0.0});
        return;
      }
      unexplained_ = true;
      if (found.mistakes.empty() || scope.slots.size() <= 1) return;
    }
    for (const MistakeChoice& m : found.mistakes) {
      if (m.name != "position.offset") places_.push_back({m, found.margin});
    }
    for (const MistakeChoice& m : found.mistakes) {
      if (m.name == "position.offset") places_.insert(places_.begin(), {m, found.margin});
    }
    for (const Mistakes& other : found.alternatives)
      alternatives_.push_back({found.mistakes, other});
  }

  bool far_off(const DiagnoseScope& scope, const Mistakes& mistakes) const {
    return !evaluation().explains(mistakes, scope.slots, kRoundingTimes);
  }

  bool untied_head() const {
    return model_.has_head && model_.settings.tied &&
           head_is_another(run_, model_, input_, evaluation(), kCleanTimes);
  }

  // --- One entry a mistake ----------------------------------------------------------------------

  Mistakes all_places() const {
    Mistakes all;
    for (const FoundMistake& f : places_) {
      if (f.choice.name != "weights.untied-head") all.push_back(f.choice);
    }
    return all;
  }

  void merge_places() {
    const Evaluation& e = evaluation();
    const auto& slots = e.replay().observed();
    std::vector<FoundMistake> rest = places_;
    settled_ = all_places();
    while (!rest.empty()) {
      std::vector<FoundMistake> group, others;
      for (const FoundMistake& f : rest)
        (same_mistake(f.choice, rest.front().choice) ? group : others).push_back(f);
      named_.push_back(merged(group, settled_, slots));
      // What the merged mistake explains better is no mistake of its own.
      std::erase_if(others, [&](const FoundMistake& f) {
        return f.choice.name != "weights.untied-head" &&
               std::ranges::none_of(settled_, [&](const MistakeChoice& m) {
                 return same_mistake(m, f.choice) && m.where == f.choice.where;
               });
      });
      rest = others;
    }
  }

  NamedMistake merged(const std::vector<FoundMistake>& group, Mistakes& settled,
                      const std::vector<Index>& slots) const {
    const MistakeChoice& first = group.front().choice;
    NamedMistake out;
    out.margin = group.front().margin;
    for (const FoundMistake& f : group) out.margin = std::min(out.margin, f.margin);
    MistakeChoice choice = first;
    bool all_layers = false;
    if (first.name != "weights.untied-head" && !first.where.empty()) {
      if (const auto with = everywhere(first, settled, slots)) {
        choice = with->back();
        settled = *with;
      } else if (group.size() > 1) {
        std::set<std::string> layers;
        for (const FoundMistake& f : group) {
          out.places.push_back(place_of(f.choice));
          if (f.choice.where.starts_with("transformer.h.")) {
            layers.insert(f.choice.where.substr(0, f.choice.where.find('.', 14)));
          }
        }
        all_layers = static_cast<Index>(layers.size()) == model_.layers();
      }
    }
    if (choice.name == "norm.eps-value") {
      choice.number = epsilon_as_written(evaluation(), settled_, choice, slots);
    }
    out.name = choice.name;
    out.where = all_layers ? "everywhere" : place_of(choice);
    out.number = reported_number(choice);
    out.text = reported_text(choice);
    return out;
  }

  // The set with this mistake in every layer, if that explains the stages as well; without what
  // was taken for another mistake in one place, if that does.
  std::optional<Mistakes> everywhere(const MistakeChoice& first, const Mistakes& settled,
                                     const std::vector<Index>& slots) const {
    const Evaluation& e = evaluation();
    Mistakes all, global;
    for (const MistakeChoice& m : settled) {
      if (same_mistake(m, first)) continue;
      all.push_back(m);
      if (m.where.empty()) global.push_back(m);
    }
    MistakeChoice choice = first;
    choice.where.clear();
    const Trace before = e.trace(settled);
    std::vector<Mistakes> tried{all};
    if (global.size() < all.size()) tried.push_back(global);
    for (Mistakes& others : tried) {
      others.push_back(choice);
      const bool fits = has_continuous_value(first);
      if (fits && e.hopeless(others, e.score(before, slots).loss, slots)) continue;
      const Mistakes with = fits ? e.fitted(others, slots) : others;
      if (e.no_worse(before, e.trace(with), slots)) return with;
    }
    return std::nullopt;
  }

  // What one stage leaves open, the others may tell.
  void check_alternatives() {
    const auto& slots = evaluation().replay().observed();
    std::set<std::set<std::string>> tried;
    std::vector<std::pair<Mistakes, Mistakes>> kept;
    for (const auto& [found, other] : alternatives_) {
      std::set<std::string> added, removed;
      for (const MistakeChoice& m : other) added.insert(m.name);
      for (const MistakeChoice& m : found) removed.insert(m.name);
      if (!tried.insert(added).second) continue;
      Mistakes instead;
      for (const MistakeChoice& m : settled_) {
        if (!removed.contains(m.name)) instead.push_back(m);
      }
      const bool everywhere = std::ranges::all_of(settled_, [&](const MistakeChoice& m) {
        return !removed.contains(m.name) || m.where.empty();
      });
      for (MistakeChoice m : other) {
        if (everywhere) m.where.clear();
        instead.push_back(m);
      }
      instead = evaluation().fitted(instead, slots);
      if (search_.as_good(instead, settled_, slots)) kept.push_back({found, other});
    }
    alternatives_ = kept;
  }

  // The search has compared some columns of the vocabulary only.
  void check_whole_vocabulary() {
    const StageList& stages = evaluation().replay().stages();
    const Index slot = stages.logits();
    const auto options = with_mistakes(model_.options(), settled_);
    const Index compared = static_cast<Index>(input_.problem.logit_columns.size());
    const bool another = std::ranges::any_of(
        named_, [](const NamedMistake& m) { return m.name == "weights.untied-head"; });
    if (input_.logits.absent() || another || compared == input_.logits.columns()) return;
    const Trace& trace = evaluation().replayed(settled_).trace;
    const auto last = static_cast<std::size_t>(options.mistakes.final_norm_calls > 0
                                                   ? stages.final_norm()
                                                   : stages.of(model_.layers() - 1, Stage::kBlock));
    const Values& used = *trace.stages[last].used;
    Values x({input_.problem.time, used.columns()});
    std::copy_n(used.row(0), x.size(), x.row(0));
    const Floats& head = options.tied ? model_.parameters.embedding.wte : model_.parameters.lm_head;
    const double left = whole_vocabulary_residual(run_, head, x, input_.logits, sequence_);
    const double floor = evaluation().replayed(settled_).floor[static_cast<std::size_t>(slot)];
    if (left <= kRoundingTimes * kRoundingTimes * floor || unexplained_) return;
    unexplained_ = true;
    out_.notes.push_back("logits depart in columns of the vocabulary that the search leaves out");
  }

  // One mistake everywhere beside another head, which no search on the logits' distance can see.
  void try_another_head() {
    const Mistakes found =
        mistakes_before_another_head(run_, model_, input_, evaluation(), kCleanTimes);
    if (found.empty()) return;
    unexplained_ = false;
    settled_ = {found.front()};
    named_ = {{.name = found.front().name,
               .number = reported_number(found.front()),
               .text = reported_text(found.front())},
              {.name = "weights.untied-head"}};
    alternatives_.clear();
    for (std::size_t i = 1; i < found.size(); ++i) {
      if (found[i].name != found.front().name) alternatives_.push_back({settled_, {found[i]}});
    }
  }

  // --- The verdict ------------------------------------------------------------------------------

  void settle() {
    if (!input_.logits_only && (!named_.empty() || unexplained_)) {
      out_.first_divergence = first_departure(evaluation(), settled_, out_.stages);
    }
    out_.mistakes = named_;
    if (unexplained_) {
      out_.status = DiagnosisStatus::kUnknown;
      // What is hardly better than the next is a guess.
      std::erase_if(out_.mistakes, [](const NamedMistake& m) {
        return m.margin < 1.5 && m.name != "weights.untied-head";
      });
    } else if (!alternatives_.empty()) {
      settle_alternatives();
    } else if (!named_.empty()) {
      out_.status = DiagnosisStatus::kNamed;
    } else if (narrow(input_.numbers)) {
      out_.status = DiagnosisStatus::kNamed;
      out_.mistakes.push_back(
          {.name = input_.numbers == Numbers::kBfloat16 ? "numbers.bf16" : "numbers.f16"});
    } else {
      out_.status = DiagnosisStatus::kEqual;
    }
  }

  void settle_alternatives() {
    std::set<std::string> in_play, certain;
    for (const auto& [found, other] : alternatives_) {
      for (const MistakeChoice& m : found) in_play.insert(m.name);
      for (const MistakeChoice& m : other) in_play.insert(m.name);
    }
    for (const NamedMistake& m : named_) certain.insert(m.name);
    for (const auto& [found, other] : alternatives_) {
      for (const MistakeChoice& m : found) {
        const bool both =
            std::ranges::any_of(other, [&](const MistakeChoice& o) { return o.name == m.name; });
        if (!both) certain.erase(m.name);
      }
    }
    std::erase_if(out_.mistakes, [&](const NamedMistake& m) { return !certain.contains(m.name); });
    for (const std::string& name : in_play) {
      if (!certain.contains(name)) out_.candidates.push_back(name);
    }
    out_.status = DiagnosisStatus::kAmbiguous;
  }

  const Runtime& run_;
  const DiagnoseModel& model_;
  const DiagnoseInput& input_;
  Index sequence_;  // the furthest off, searched first
  DiagnoseSearch search_;
  std::vector<FoundMistake> places_;
  std::vector<std::pair<Mistakes, Mistakes>> alternatives_;
  std::vector<NamedMistake> named_;
  Mistakes settled_, before_;
  bool unexplained_ = false;
  Diagnosis out_;
};

// The model before its head, and beside it a head that is another, `far` from ours.
Diagnosis diagnose_before_head(const Runtime& run, const DiagnoseModel& model,
                               const DiagnoseInput& input, double far,
                               const std::function<void(const std::string&)>& progress) {
  const StageList stages(model.layers());
  DiagnoseInput rest = input;
  rest.problem.theirs.erase(stages.logits());
  rest.logits = Floats();
  Diagnosis out = Diagnoser(run, model, rest, progress).diagnose();
  out.mistakes.push_back({.name = "weights.untied-head"});
  if (out.status == DiagnosisStatus::kEqual) out.status = DiagnosisStatus::kNamed;
  out.stages.push_back(
      {.name = stages.name(stages.logits()), .relative = far, .rounding = 0.0, .departs = true});
  if (!out.first_divergence) out.first_divergence = out.stages.back().name;
  return out;
}

}  // namespace

std::string_view diagnosis_status_name(DiagnosisStatus status) {
  static constexpr std::array<std::string_view, 4> kNames = {"equal", "named", "ambiguous",
                                                             "unknown"};
  return kNames[static_cast<std::size_t>(status)];
}

Diagnosis diagnose(const Runtime& run, const DiagnoseModel& model, const DiagnoseInput& input,
                   const std::function<void(const std::string&)>& progress) {
  if (!narrow(input.numbers)) {
    Diagnoser whole(run, model, input, progress);
    if (const auto far = whole.another_head()) {
      return diagnose_before_head(run, model, input, *far, progress);
    }
    return whole.diagnose();
  }
  const DiagnoseModel small = rounded(model, input.numbers);  // so are the run's parameters
  return Diagnoser(run, small, input, progress).diagnose();
}

}  // namespace prenorm
