#include "prenorm/study/diagnose_crowd.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "prenorm/study/diagnose_places.h"

namespace prenorm {
namespace {

constexpr Index kTokens = 3;          // of the sequence: attention has something to weigh
constexpr std::size_t kMembers = 16;  // of a batch
constexpr std::string_view kBlock = "transformer.h.";

bool at_end(const MistakeChoice& m) {
  return m.where == "transformer.ln_f" || m.name == "weights.tied-head" ||
         m.name == "structure.no-final-norm" || m.name == "structure.double-final-norm";
}

std::shared_ptr<const Values> first_rows(const Values& x, Index rows) {
  Values out({rows, x.columns()});
  std::copy_n(x.row(0), out.size(), out.row(0));
  return std::make_shared<const Values>(std::move(out));
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

DiagnoseCrowd::DiagnoseCrowd(const Runtime& run, const Evaluation& whole,
                             reference::Numbers numbers, Mistakes start, Arithmetic arithmetic)
    : run_(run),
      whole_(whole),
      arithmetic_(arithmetic),
      start_(std::move(start)),
      few_replay_(run, whole.replay().model(), whole.replay().problem().cropped(1, kTokens)),
      few_(run, few_replay_, whole.right(), numbers),
      whole_trace_(whole.whole_trace(start_)),
      few_trace_(few_.whole_trace(start_)),
      start_options_(with_mistakes(whole.right(), start_)),
      start_score_(few_.score(few_trace_, few_replay_.observed())) {}

bool DiagnoseCrowd::serves(const DiagnoseProblem& problem, const StageList& stages) {
  return problem.theirs.size() == 1 && problem.has(stages.logits()) && problem.time > kTokens;
}

bool DiagnoseCrowd::takes(const Mistakes& set) const {
  const std::span added = std::span(set).subspan(start_.size());
  return std::ranges::all_of(added, [&](const MistakeChoice& m) {
    if (at_end(m)) return m.name != "norm.axis";  // which needs every token at the end
    return (m.where.starts_with(kBlock) && added.size() == 1);
  });
}

Index DiagnoseCrowd::layer_of(const Mistakes& set) const {
  const MistakeChoice& added = set[start_.size()];
  return at_end(added) ? stages().layers() : std::stoll(added.where.substr(kBlock.size()));
}

// The first layers have the most to do and come first.
std::vector<DiagnoseCrowd::Group> DiagnoseCrowd::groups(std::span<const Mistakes> sets) const {
  std::vector<Group> out;
  for (Index layer = 0; layer <= stages().layers(); ++layer) {
    bool open = false;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if (layer_of(sets[i]) != layer) continue;
      if (!open || out.back().sets.size() == kMembers) out.push_back({layer, {}});
      open = true;
      out.back().sets.push_back(i);
    }
  }
  return out;
}

const DiagnoseCrowd::Shared& DiagnoseCrowd::into(const Trace& trace, const StageList& stages,
                                                 Index layer) {
  return trace.at(layer == 0 ? stages.embedding() : stages.of(layer - 1, Stage::kBlock)).used;
}

// What the layer with the set's mistakes makes of the first tokens.
DiagnoseCrowd::Shared DiagnoseCrowd::after_layer(Index layer, const Mistakes& set) const {
  const auto options = with_mistakes(whole_.right(), set);
  const bool over_time =
      std::ranges::any_of(set, [](const MistakeChoice& m) { return m.name == "norm.axis"; });
  const auto part = [&](const Replay& replay, const Trace& before) {
    DiagnosePass pass(run_, replay.model(), replay.problem(), replay.stages(), options, &before,
                      false, arithmetic_);
    if (!over_time) pass.set_whole(&whole_trace_);
    return pass.block(layer, into(before, replay.stages(), layer));
  };
  if (!over_time) return part(few_replay_, few_trace_);
  return first_rows(*part(whole_.replay(), whole_trace_), kTokens);
}

Score DiagnoseCrowd::score_at_end(const Mistakes& set) const {
  const auto options = with_mistakes(whole_.right(), set);
  return few_.score(few_replay_.run(options, &few_trace_, false, arithmetic_),
                    few_replay_.observed());
}

void DiagnoseCrowd::score(const Group& group, std::span<const Mistakes> sets,
                          std::vector<Score>& out) const {
  if (group.layer == stages().layers()) {
    for (const std::size_t i : group.sets) out[i] = score_at_end(sets[i]);
    return;
  }
  const Index logits = stages().logits();
  const Values& theirs = *few_replay_.problem().theirs.at(logits);
  const auto count = static_cast<Index>(group.sets.size());
  DiagnoseProblem batch;
  batch.batch = count;
  batch.time = kTokens;
  Values x, all_theirs({count * kTokens, theirs.columns()});
  for (Index k = 0; k < count; ++k) {
    const Shared one = after_layer(group.layer, sets[group.sets[static_cast<std::size_t>(k)]]);
    if (k == 0) x = Values({count * kTokens, one->columns()});
    std::copy_n(one->row(0), one->size(), x.row(k * kTokens));
    std::copy_n(theirs.row(0), theirs.size(), all_theirs.row(k * kTokens));
  }
  batch.theirs[logits] = std::make_shared<const Values>(std::move(all_theirs));
  DiagnosePass pass(run_, few_replay_.model(), batch, stages(), start_options_, nullptr, false,
                    arithmetic_);
  few_replay_.give_heads(pass);
  Shared stream = std::make_shared<const Values>(std::move(x));
  for (Index layer = group.layer + 1; layer < stages().layers(); ++layer) {
    stream = pass.block(layer, stream);
  }
  pass.end(stream);
  const Values& found = *pass.trace().at(logits).computed;
  for (Index k = 0; k < count; ++k) {
    Values one({kTokens, found.columns()});
    std::copy_n(found.row(k * kTokens), one.size(), one.row(0));
    Score& score = out[group.sets[static_cast<std::size_t>(k)]];
    few_.add(score, logits, mean_square_difference(one, theirs));
  }
}

std::vector<Score> DiagnoseCrowd::scores(std::span<const Mistakes> sets) const {
  std::vector<Score> out(sets.size());
  const std::vector<Group> all = groups(sets);
  on_threads(run_, static_cast<Index>(all.size()),
             [&](Index i) { score(all[static_cast<std::size_t>(i)], sets, out); });
  return out;
}

}  // namespace prenorm
