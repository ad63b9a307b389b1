#include "prenorm/study/diagnose_replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "prenorm/reference/mistake_table.h"
#include "prenorm/study/diagnose_pass.h"
#include "prenorm/study/sum_of.h"

namespace prenorm {

using reference::Numbers;

double mean_square_difference(const Values& a, const Values& b) {
  const double *x = a.row(0), *y = b.row(0);
  const double sum = sum_of(a.size(), [&](Index i) { return (x[i] - y[i]) * (x[i] - y[i]); });
  const double mean = sum / static_cast<double>(std::max<Index>(1, a.size()));
  return std::isfinite(mean) ? mean : std::numeric_limits<double>::infinity();
}

double mean_square(const Values& a) {
  const double* x = a.row(0);
  const double sum = sum_of(a.size(), [&](Index i) { return x[i] * x[i]; });
  return sum / static_cast<double>(std::max<Index>(1, a.size()));
}

Values row_range(const Values& x, Index first, Index count) {
  Values out({count, x.columns()});
  std::copy_n(x.row(first), out.size(), out.row(0));
  return out;
}

DiagnoseProblem DiagnoseProblem::cropped(Index few, Index prefix) const {
  DiagnoseProblem out;
  out.batch = few;
  out.time = prefix;
  out.logit_columns = logit_columns;
  const auto rows_of = [&](const Values& x) {
    Values part({few * prefix, x.columns()});
    for (Index b = 0; b < few; ++b) {
      std::copy_n(x.row(b * time), prefix * x.columns(), part.row(b * prefix));
    }
    return part;
  };
  for (Index b = 0; b < few && !tokens.empty(); ++b) {
    const auto first = tokens.begin() + b * time;
    out.tokens.insert(out.tokens.end(), first, first + prefix);
  }
  if (!embedded.absent()) out.embedded = rows_of(embedded);
  for (const auto& [slot, value] : theirs) {
    out.theirs[slot] = std::make_shared<const Values>(rows_of(*value));
  }
  return out;
}

DiagnoseProblem DiagnoseProblem::with_first(Index sequence) const {
  DiagnoseProblem out = *this;
  const auto exchange = [&](Values& x) {
    std::swap_ranges(x.row(0), x.row(time), x.row(sequence * time));
  };
  if (sequence == 0) return out;
  if (!tokens.empty()) {
    std::swap_ranges(out.tokens.begin(), out.tokens.begin() + time,
                     out.tokens.begin() + sequence * time);
  }
  if (!embedded.absent()) exchange(out.embedded);
  for (auto& [slot, value] : out.theirs) {
    Values exchanged = *value;
    exchange(exchanged);
    value = std::make_shared<const Values>(std::move(exchanged));
  }
  return out;
}

Replay::Replay(const Runtime& run, const DiagnoseModel& model, DiagnoseProblem problem)
    : run_(run), model_(model), problem_(std::move(problem)), stages_(model.layers()) {
  for (const auto& [slot, value] : problem_.theirs) observed_.push_back(slot);
  if (!model.has_head) return;
  const auto columns_of = [&](const Floats& head) {
    const auto count = static_cast<Index>(problem_.logit_columns.size());
    Floats out({head.columns(), count});
    for (Index i = 0; i < count; ++i) {
      const float* row = head.row(problem_.logit_columns[static_cast<std::size_t>(i)]);
      for (Index c = 0; c < head.columns(); ++c) out(c, i) = row[c];
    }
    return out;
  };
  tied_head_ = columns_of(model.parameters.embedding.wte);
  if (!model.parameters.lm_head.absent()) untied_head_ = columns_of(model.parameters.lm_head);
}

Trace Replay::run(const reference::GptOptions& options, const Trace* base, bool spread,
                  Arithmetic arithmetic, Keep keep) const {
  DiagnosePass pass(run_, model_, problem_, stages_, options, base, spread, arithmetic, keep);
  pass.set_heads(tied_head_, untied_head_);
  return pass.run();
}

Trace Replay::rounded_run(const reference::GptOptions& options, Numbers numbers, const Trace* base,
                          Keep keep) const {
  reference::GptOptions small = options;
  const bool narrow = numbers == Numbers::kBfloat16 || numbers == Numbers::kFloat16;
  reference::compute_in(small, narrow ? numbers : Numbers::kFloat32);
  return run(small, base, true, Arithmetic::kFloat, keep);
}

double Replay::rounding(Index slot, const Trace& exact, const Trace& rounded) const {
  constexpr double kUnit = 0x1p-24;                    // half a unit in the last place of float32
  if (exact.at(slot).computed == nullptr) return 0.0;  // a module that is never called
  const double size = mean_square(*exact.at(slot).computed);
  const double found = mean_square_difference(*exact.at(slot).computed, *rounded.at(slot).computed);
  const double least = std::max(size * kUnit * kUnit / 3.0, std::numeric_limits<double>::min());
  return std::max(found, least);
}

}  // namespace prenorm
