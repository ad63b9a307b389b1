#include "prenorm/study/diagnose_head.h"

#include <algorithm>
#include <cmath>

namespace prenorm {
namespace {

// Mean square, for each degree of freedom that is left, of what no matrix W makes of y ≈ x W.
// Householder's QR of [x | y], by rows; x: [N, C] with N > C, y: [N, K].
double unexplained(Values x, Values y) {
  const Index rows = x.rows(), width = x.columns();
  for (Index c = 0; c < width; ++c) {
    double square = 0.0;
    for (Index n = c; n < rows; ++n) square += x(n, c) * x(n, c);
    const double norm = std::sqrt(square);
    if (norm == 0.0) continue;
    const double head = x(c, c) > 0.0 ? -norm : norm;
    std::vector<double> v(static_cast<std::size_t>(rows - c));
    for (Index n = c; n < rows; ++n) v[static_cast<std::size_t>(n - c)] = x(n, c);
    v[0] -= head;
    double v_square = 0.0;
    for (const double e : v) v_square += e * e;
    const auto reflect = [&](Values& m, Index from) {
      std::vector<double> dot(static_cast<std::size_t>(m.columns() - from), 0.0);
      for (Index n = c; n < rows; ++n) {
        const double e = v[static_cast<std::size_t>(n - c)];
        for (Index k = from; k < m.columns(); ++k)
          dot[static_cast<std::size_t>(k - from)] += e * m(n, k);
      }
      for (Index n = c; n < rows; ++n) {
        const double e = 2.0 * v[static_cast<std::size_t>(n - c)] / v_square;
        for (Index k = from; k < m.columns(); ++k)
          m(n, k) -= e * dot[static_cast<std::size_t>(k - from)];
      }
    };
    reflect(x, c);
    reflect(y, 0);
  }
  double sum = 0.0;
  for (Index n = width; n < rows; ++n) {
    for (Index k = 0; k < y.columns(); ++k) sum += y(n, k) * y(n, k);
  }
  return sum / static_cast<double>((rows - width) * y.columns());
}

Values first_of(const Values& x, Index rows, Index columns) {
  Values out({rows, columns});
  for (Index n = 0; n < rows; ++n) std::copy_n(x.row(n), columns, out.row(n));
  return out;
}

// What no head makes of `x` in the logits, both [N, ..], N > C.
double not_linear(const Values& x, const Values& logits) {
  constexpr Index kColumns = 64;
  const Index few = std::min(x.rows(), 2 * x.columns() + 64);
  return unexplained(first_of(x, few, x.columns()),
                     first_of(logits, few, std::min(kColumns, logits.columns())));
}

// The logits' rounding is measured with our head; another's goes with the size of its logits.
double rounding_of_theirs(const Evaluation& evaluation, Index logits, const Values& theirs) {
  const double ours = mean_square(*evaluation.base().at(logits).computed);
  const double scale = mean_square(theirs) / std::max(ours, 1e-300);
  return evaluation.floor()[static_cast<std::size_t>(logits)] * std::max(1.0, scale);
}

}  // namespace

bool no_known_head_follows(const DiagnoseModel& model, const Trace& right,
                           const DiagnoseProblem& problem) {
  constexpr Index kMore = 32,
                  kTokens = 8;       // columns beyond the width, which show what is left over
  constexpr double kRounding = 0.1;  // of the size, and more than any type's
  const Index slot = StageList(model.layers()).logits();
  const auto found = problem.theirs.find(slot);
  const auto& columns = problem.logit_columns;
  const Index width = model.width(), count = width + kMore;
  if (found == problem.theirs.end() || static_cast<Index>(columns.size()) < count) return false;
  const Values& theirs = *found->second;
  constexpr double kMost = kRounding * kRounding;
  if (right.residual(slot) <= kMost * mean_square(theirs)) return false;
  Values logits({count, std::min(kTokens, theirs.rows())});
  for (Index v = 0; v < count; ++v) {
    for (Index n = 0; n < logits.columns(); ++n) logits(v, n) = theirs(n, v);
  }
  const double most = kMost * mean_square(logits);
  const auto follows = [&](const Floats& head) {
    if (head.absent()) return false;
    Values x({count, width});
    for (Index v = 0; v < count; ++v) {
      std::copy_n(head.row(columns[static_cast<std::size_t>(v)]), width, x.row(v));
    }
    return unexplained(std::move(x), logits) <= most;
  };
  return !follows(model.parameters.embedding.wte) && !follows(model.parameters.lm_head);
}

std::optional<double> another_head_follows(const DiagnoseModel& model, const DiagnoseInput& input,
                                           const Evaluation& evaluation) {
  const StageList stages(model.layers());
  const auto& dumped = input.problem.theirs;
  const auto norm = dumped.find(stages.final_norm()), logits = dumped.find(stages.logits());
  if (!model.has_head || !model.settings.tied || norm == dumped.end() || logits == dumped.end()) {
    return std::nullopt;
  }
  // Another matrix moves the logits by their size; rounding to a narrow type by far less.
  constexpr double kFarOff = 0.05 * 0.05, kRounding = 1e-9;
  const double size = mean_square(*evaluation.replay().problem().theirs.at(stages.logits()));
  const double off = evaluation.base().residual(stages.logits());
  if (!(off > kFarOff * size)) return std::nullopt;
  if (input.problem.rows() > model.width() &&
      not_linear(*norm->second, *logits->second) > kRounding * size) {
    return std::nullopt;
  }
  return std::sqrt(off / size);
}

bool head_is_another(const Runtime& run, const DiagnoseModel& model, const DiagnoseInput& input,
                     const Evaluation& evaluation, double times) {
  const StageList stages(model.layers());
  const double floor = evaluation.floor()[static_cast<std::size_t>(stages.logits())];
  if (evaluation.base().residual(stages.logits()) <= times * times * floor) return false;
  const Index width = model.width(), rows = input.problem.rows();
  const bool dumped = input.problem.has(stages.final_norm());
  if (dumped &&
      evaluation.base().residual(stages.final_norm()) >
          times * times * evaluation.floor()[static_cast<std::size_t>(stages.final_norm())]) {
    return false;
  }
  if (rows <= width) return dumped;
  const Replay whole(run, model, input.problem);
  const Trace trace = whole.run(model.options());
  const Values& theirs = *input.problem.theirs.at(stages.logits());
  return not_linear(*trace.at(stages.final_norm()).used, theirs) <=
         times * times * rounding_of_theirs(evaluation, stages.logits(), theirs);
}

std::vector<MistakeChoice> mistakes_before_another_head(const Runtime& run,
                                                        const DiagnoseModel& model,
                                                        const DiagnoseInput& input,
                                                        const Evaluation& evaluation,
                                                        double times) {
  const StageList stages(model.layers());
  if (!model.has_head || !model.settings.tied || input.problem.rows() <= model.width()) return {};
  const Values& theirs = *input.problem.theirs.at(stages.logits());
  const double most = times * times * rounding_of_theirs(evaluation, stages.logits(), theirs);
  const Mistakes choices = choices_everywhere(model, input.problem.time);
  const Replay whole(run, model, input.problem);
  // Where the right model does as well, nothing before the head is mistaken.
  const Trace right = whole.run(model.options());
  if (not_linear(*right.at(stages.final_norm()).used, theirs) <= most) return {};
  std::vector<double> left(choices.size(), 0.0);
  on_threads(run, static_cast<Index>(choices.size()), [&](Index i) {
    const auto at = static_cast<std::size_t>(i);
    const Trace trace = whole.run(with_mistakes(model.options(), {choices[at]}), nullptr, false);
    const TracedStage& norm = trace.at(stages.final_norm());
    left[at] = norm.used == nullptr ? most * 2.0 : not_linear(*norm.used, theirs);
  });
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (left[i] <= most) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return left[i]; });
  std::vector<MistakeChoice> found;
  for (const std::size_t i : order) found.push_back(choices[i]);
  return found;
}

}  // namespace prenorm
