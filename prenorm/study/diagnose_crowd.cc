#include "prenorm/study/diagnose_crowd.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "prenorm/study/diagnose_joint.h"
#include "prenorm/study/diagnose_places.h"

namespace prenorm {
namespace {

constexpr Index kRows = 96;  // of a group: its activations stay in the processor's caches
constexpr std::string_view kBlock = "transformer.h.";

bool at_end(const MistakeChoice& m) {
  return m.where == "transformer.ln_f" || m.name == "weights.tied-head" ||
         m.name == "structure.no-final-norm" || m.name == "structure.double-final-norm";
}

}  // namespace

bool looks_ahead(const Mistakes& mistakes) {
  static constexpr std::array<std::string_view, 9> kNames = {"norm.axis",
                                                             "attention.no-mask",
                                                             "attention.mask-zero",
                                                             "attention.mask-finite",
                                                             "attention.mask-shifted",
                                                             "attention.mask-inverted",
                                                             "attention.softmax-axis",
                                                             "attention.no-split-transpose",
                                                             "attention.no-merge-transpose"};
  return std::ranges::any_of(mistakes, [](const MistakeChoice& m) {
    return std::ranges::find(kNames, m.name) != kNames.end();
  });
}

DiagnoseCrowd::DiagnoseCrowd(const Runtime& run, const Evaluation& whole, const Evaluation& few,
                             Mistakes start, Arithmetic arithmetic)
    : run_(run),
      whole_(whole),
      few_(few),
      arithmetic_(arithmetic),
      start_(std::move(start)),
      few_trace_(few_.whole_trace(start_)),
      start_score_(few_.score(few_trace_, few_.replay().observed())) {}

bool DiagnoseCrowd::serves(const DiagnoseProblem& problem, const StageList& stages, Index tokens) {
  return problem.theirs.size() == 1 && problem.has(stages.logits()) && problem.time > tokens;
}

std::span<const MistakeChoice> DiagnoseCrowd::added(const Mistakes& set) const {
  return std::span(set).subspan(start_.size());
}

bool DiagnoseCrowd::takes(const Mistakes& set, const Mistakes& start) {
  if (!looks_ahead(set)) return true;
  const auto more = std::span(set).subspan(start.size());
  // The final norm over the time needs every token at the end.
  return more.size() == 1 && more.front().where.starts_with(kBlock);
}

Index DiagnoseCrowd::layer_of(const Mistakes& set) const {
  Index first = stages().layers();
  for (const MistakeChoice& m : added(set)) {
    if (at_end(m)) continue;
    const bool local = m.where.starts_with(kBlock);
    first = std::min(
        first, local ? static_cast<Index>(std::stoll(m.where.substr(kBlock.size()))) : Index{0});
  }
  return first;
}

// The first layers have the most to do and come first.
std::vector<DiagnoseCrowd::Group> DiagnoseCrowd::groups(std::span<const Mistakes> sets) const {
  std::vector<Group> out;
  for (Index layer = 0; layer <= stages().layers(); ++layer) {
    for (const bool ahead : {true, false}) {
      std::vector<std::size_t> here;
      for (std::size_t i = 0; i < sets.size(); ++i) {
        if (layer_of(sets[i]) == layer && looks_ahead(sets[i]) == ahead) here.push_back(i);
      }
      if (here.empty()) continue;
      // Of nearly the same size, at least one for each thread.
      const std::size_t most = static_cast<std::size_t>(std::max<Index>(1, kRows / tokens()));
      const auto threads = static_cast<std::size_t>(run_.pool().threads());
      const std::size_t count = std::max((here.size() + most - 1) / most, threads);
      const std::size_t size = (here.size() + count - 1) / count;
      for (std::size_t first = 0; first < here.size(); first += size) {
        const auto from = here.begin() + static_cast<std::ptrdiff_t>(first);
        const auto left = static_cast<std::ptrdiff_t>(std::min(size, here.size() - first));
        out.push_back({layer, ahead, {from, from + left}});
      }
    }
  }
  return out;
}

const DiagnoseCrowd::Shared& DiagnoseCrowd::into(const Trace& trace, const StageList& stages,
                                                 Index layer) {
  return trace.at(layer == 0 ? stages.embedding() : stages.of(layer - 1, Stage::kBlock)).used;
}

// What goes into the first layer that differs from the start's.
DiagnoseCrowd::Shared DiagnoseCrowd::first_stream(Index layer,
                                                  const reference::GptOptions& options) const {
  if (layer > 0) return into(few_trace_, stages(), layer);
  const Replay& replay = few_.replay();
  return DiagnosePass(run_, replay.model(), replay.problem(), stages(), options, &few_trace_, false,
                      arithmetic_)
      .embed();
}

// What the layer with the set's mistakes makes of the first tokens.
DiagnoseCrowd::Shared DiagnoseCrowd::after_layer(Index layer, const Mistakes& set,
                                                 const Trace& whole_trace) const {
  const auto options = with_mistakes(whole_.right(), set);
  const bool over_time =
      std::ranges::any_of(set, [](const MistakeChoice& m) { return m.name == "norm.axis"; });
  const auto part = [&](const Replay& replay, const Trace& before) {
    DiagnosePass pass(run_, replay.model(), replay.problem(), replay.stages(), options, &before,
                      false, arithmetic_);
    if (!over_time) pass.set_whole(&whole_trace);
    return pass.block(layer, into(before, replay.stages(), layer));
  };
  if (!over_time) return part(few_.replay(), few_trace_);
  return std::make_shared<const Values>(
      row_range(*part(whole_.replay(), whole_trace), 0, tokens()));
}

void DiagnoseCrowd::run_group(const Group& group, std::span<const Mistakes> sets,
                              const Trace* whole_trace, std::vector<Values>& out) const {
  const auto count = static_cast<Index>(group.sets.size());
  std::vector<reference::GptOptions> options;
  Values x;
  for (Index k = 0; k < count; ++k) {
    const Mistakes& set = sets[group.sets[static_cast<std::size_t>(k)]];
    options.push_back(with_mistakes(whole_.right(), set));
    const Shared one = group.ahead ? after_layer(group.layer, set, *whole_trace)
                                   : first_stream(group.layer, options.back());
    if (k == 0) x = Values({count * tokens(), one->columns()});
    std::copy_n(one->row(0), one->size(), x.row(k * tokens()));
  }
  const JointPass pass(run_, few_.replay(), options, arithmetic_);
  for (Index layer = group.layer + group.ahead; layer < stages().layers(); ++layer) {
    x = pass.block(layer, x);
  }
  const Values found = pass.end(x);
  for (Index k = 0; k < count; ++k) {
    out[group.sets[static_cast<std::size_t>(k)]] = row_range(found, k * tokens(), tokens());
  }
}

std::vector<Values> DiagnoseCrowd::logits(std::span<const Mistakes> sets) const {
  std::vector<Values> out(sets.size());
  const std::vector<Group> all = groups(sets);
  std::optional<Trace> whole_trace;
  if (std::ranges::any_of(all, &Group::ahead)) whole_trace = whole_.whole_trace(start_);
  on_threads(run_, static_cast<Index>(all.size()), [&](Index i) {
    run_group(all[static_cast<std::size_t>(i)], sets, whole_trace ? &*whole_trace : nullptr, out);
  });
  return out;
}

Score DiagnoseCrowd::score_of(const Values& logits) const {
  Score score;
  const Index slot = stages().logits();
  few_.add(score, slot, mean_square_difference(logits, *few_.replay().problem().theirs.at(slot)));
  few_.add_logits(score, logits);
  return score;
}

}  // namespace prenorm
