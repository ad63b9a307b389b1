// How well sets of mistakes explain a dump: each is replayed, several at a time on the runtime's
// threads, and compared with what the user's code computed. An object is for one thread.
//
//   const Evaluation evaluation(replay, right, numbers);
//   const std::vector<Score> scores = evaluation.scores(sets, slots);
//   Mistakes fitted = evaluation.fitted({{.name = "norm.eps-value", .number = 1e-6}}, slots);
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "prenorm/study/diagnose_hypotheses.h"
#include "prenorm/study/diagnose_replay.h"

namespace prenorm {

struct Score {
  // Σ over the stages of log₂ (mean square residual in units of the rounding's, plus a tenth):
  // halving one stage's residual is worth 1, below the rounding there is little more to win.
  double cost = 0.0;
  double loss = 0.0;  // Σ over the stages of the mean square residual in units of the rounding's
  // log₂ of what the logits of a dump that has nothing else are moved by, in the same units.
  double moved = 0.0;
  // Mean square of those logits over that of the right model's: rounding grows with it.
  double size = 1.0;
};

// Calls body(piece) for each piece on the runtime's threads. Unlike those of the pool the body may
// throw: the last exception is thrown here.
void on_threads(const Runtime& run, Index pieces, const std::function<void(Index)>& body);

class Evaluation {
 public:
  // `numbers`: the type of the dump where it is narrower than float32. The replay must outlive
  // this.
  Evaluation(const Runtime& run, const Replay& replay, reference::GptOptions right,
             reference::Numbers numbers);

  const Replay& replay() const { return replay_; }
  const reference::GptOptions& right() const { return right_; }
  const Trace& base() const { return base_; }
  // Mean squares of the rounding, by slot, of the right model.
  const std::vector<double>& floor() const { return floor_; }
  // The pass with these mistakes, and the rounding with them, by slot.
  struct Replayed {
    std::vector<double> fingerprint;
    Trace trace;
    std::vector<double> floor;
  };
  // Kept until another is asked for: the questions about one come together.
  const Replayed& replayed(const Mistakes& mistakes) const;

  // The pass with these mistakes, of which the stages are there that Keep::kCompared names. The
  // last few are not replayed again.
  Trace trace(const Mistakes& mistakes) const;
  // The same with all its stages.
  Trace whole_trace(const Mistakes& mistakes) const;
  Score score(const Trace& trace, std::span<const Index> slots) const;
  // Adds a stage to a score: its mean square residual.
  void add(Score& score, Index slot, double residual) const;
  // How far the right model's logits are from these, and their size: Score::moved and size.
  void add_logits(Score& score, const Values& computed) const;
  Score base_score(std::span<const Index> slots) const { return score(base_, slots); }
  // A set that was scored before is not replayed again. `start`: mistakes that all sets begin with;
  // what is the same with these alone is not replayed either.
  std::vector<Score> scores(std::span<const Mistakes> sets, std::span<const Index> slots,
                            const Mistakes& start = {},
                            Arithmetic arithmetic = Arithmetic::kDouble) const;

  // Of single mistakes that are scored from now on, the first rows of their logits are kept.
  void keep_first_rows(Index rows) { kept_rows_ = rows; }
  // Null where that mistake was not scored since.
  const Values* first_rows(const std::vector<double>& fingerprint) const;

  // The set with its continuous values (ε, the mask's number) where the residual is least;
  // `exactly` to 1e-4 of the number.
  Mistakes fitted(Mistakes set, std::span<const Index> slots, int most_steps = 12,
                  double exactly = 1e-4) const;
  // The first of them, to a hundredth or so and in float, where much is to be won: nothing where
  // the first step wins little.
  std::optional<Mistakes> roughly_fitted(Mistakes set, std::span<const Index> slots) const;
  // The loss that a fit of the first of them starts from, and what it may come down to as the slope
  // tells.
  struct Prospect {
    double here, attainable;
  };
  Prospect prospect(const Mistakes& set, std::span<const Index> slots) const;

  // Whether no fit of the set's one number comes near that loss.
  bool hopeless(const Mistakes& set, double loss, std::span<const Index> slots) const;

  // Whether no stage is further off than before by more than its rounding.
  bool no_worse(const Trace& before, const Trace& after, std::span<const Index> slots) const;

  // Whether logits that scored so are further off than any rounding of float32 may be, so that
  // `explains` need not be asked. Only of a dump that has nothing else.
  bool far_off(const Score& score, std::span<const Index> slots, double times) const;
  // Whether every stage's residual is within `times` the rounding measured with these mistakes.
  bool explains(const Mistakes& mistakes, std::span<const Index> slots, double times) const;

 private:
  struct Remembered {
    std::vector<double> fingerprint;
    Trace trace;
  };

  // The pass with what sets begin with, kept until another is asked for.
  const Trace& started(const Mistakes& start) const;
  const Trace* remembered(const std::vector<double>& fingerprint) const;
  void remember(std::vector<double> fingerprint, Trace trace) const;
  void keep(const std::vector<double>& fingerprint, const Trace& trace) const;
  // Whether the replay is further off than any rounding of float32 may be.
  bool far_off(const Trace& trace, std::span<const Index> slots, double times) const;
  double fit_step(const Trace& here, const Trace& beside, double by,
                  std::span<const Index> slots) const;
  struct RoughFit {
    double number, loss, next;
  };
  RoughFit fit_at(Mistakes set, std::size_t which, double number,
                  std::span<const Index> slots) const;
  double between_masks(const Mistakes& set, std::size_t which, std::span<const Index> slots) const;
  bool fit_number(Mistakes& set, std::size_t which, std::span<const Index> slots,
                  double exactly) const;

  const Runtime& run_;
  const Replay& replay_;
  reference::GptOptions right_;
  reference::Numbers numbers_;
  Trace base_, rounded_base_;
  std::vector<double> floor_;
  mutable std::unique_ptr<Replayed> replayed_, start_;
  mutable std::map<std::vector<double>, Score> scored_;  // by fingerprint and slots
  Index kept_rows_ = 0;
  mutable std::map<std::vector<double>, Values> first_rows_;  // by fingerprint
  mutable std::deque<Remembered> traces_;                     // the latest first
};

}  // namespace prenorm
