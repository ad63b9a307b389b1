#include "prenorm/study/diagnose_whole.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "prenorm/kernels/matmul_wide.h"
#include "prenorm/study/diagnose_evaluation.h"

namespace prenorm {

Index furthest_sequence(const Runtime& run, const DiagnoseModel& model,
                        const DiagnoseProblem& problem) {
  if (problem.batch <= 1) return 0;
  const Replay replay(run, model, problem);
  const Trace trace = replay.run(model.options());
  Index furthest = 0;
  double most = 0.0;
  for (const Index slot : replay.observed()) {
    if (trace.at(slot).computed == nullptr) continue;
    const Values &theirs = *problem.theirs.at(slot), &ours = *trace.at(slot).computed;
    const double size = std::max(mean_square(theirs), 1e-300);
    for (Index b = 0; b < problem.batch; ++b) {
      double sum = 0.0;
      const Index first = b * problem.time * theirs.columns();
      for (Index i = 0; i < problem.time * theirs.columns(); ++i) {
        const double d = theirs[first + i] - ours[first + i];
        sum += d * d;
      }
      const double off = sum / size;
      if (!(off > most)) continue;
      most = off;
      furthest = b;
    }
  }
  return furthest;
}

double whole_vocabulary_residual(const Runtime& run, const Floats& head, const Values& x,
                                 const Floats& logits, Index sequence) {
  constexpr Index kChunk = 256;
  const Index rows = x.rows(), width = x.columns(), vocabulary = head.rows();
  const Index chunks = (vocabulary + kChunk - 1) / kChunk;
  std::vector<double> sums(static_cast<std::size_t>(chunks), 0.0);
  on_threads(run, chunks, [&](Index chunk) {
    const Index first = chunk * kChunk, count = std::min(kChunk, vocabulary - first);
    Floats columns({width, count});
    for (Index v = 0; v < count; ++v) {
      for (Index c = 0; c < width; ++c) columns(c, v) = head(first + v, c);
    }
    Values out({rows, count});
    kernels::matmul_wide(run.isa(), rows, width, count, x.row(0), columns.row(0), out.row(0));
    double& sum = sums[static_cast<std::size_t>(chunk)];
    for (Index n = 0; n < rows; ++n) {
      const float* theirs = logits.row(sequence * rows + n) + first;
      for (Index v = 0; v < count; ++v) {
        const double d = static_cast<double>(theirs[v]) - out(n, v);
        sum += d * d;
      }
    }
  });
  double sum = 0.0;
  for (const double part : sums) sum += part;
  const double mean = sum / static_cast<double>(std::max<Index>(1, rows * vocabulary));
  return std::isfinite(mean) ? mean : std::numeric_limits<double>::infinity();
}

}  // namespace prenorm
