// The search for the mistakes that explain what a part of a model computed: one after another while
// each halves what is left, and where that leads nowhere, every pair.
//
//   DiagnoseSearch search(run, model, problem, numbers);
//   const Explanation found = search.explain(scope);
//
// Where a dump has the stages, a mistake changes the residual of its own stages alone and finding
// them one by one is exact. Where it has only the end, hypotheses are screened on few tokens first.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/study/diagnose_effects.h"
#include "prenorm/study/diagnose_evaluation.h"

namespace prenorm {

// Stages that are explained together, and the sets of mistakes that are tried for them.
struct DiagnoseScope {
  std::vector<Index> slots;
  std::vector<Mistakes> likely;  // tried first, and in pairs
  std::vector<Mistakes> others;  // the same mistakes in one layer only
};

// The scopes that a dump cuts the model into: between two stages that hold the whole residual
// stream, nothing depends on what is outside.
std::vector<DiagnoseScope> diagnose_scopes(const DiagnoseModel& model,
                                           const DiagnoseProblem& problem);

struct Explanation {
  Mistakes mistakes;
  bool explained = false;  // down to the rounding
  double margin = 0.0;     // the runner-up's loss over the best's
  // Other sets that explain the stages as well, within rounding.
  std::vector<Mistakes> alternatives;
};

// Where the mask's number is nearly zero, it has a name of its own.
Mistakes with_zero_mask_named(Mistakes mistakes, double zero = 0.02);

bool any_continuous(const Mistakes& mistakes);

class DiagnoseSearch {
 public:
  // Called with what is going on when a search takes long.
  using Progress = std::function<void(const std::string&)>;

  DiagnoseSearch(const Runtime& run, const DiagnoseModel& model, const DiagnoseProblem& problem,
                 reference::Numbers numbers, Progress progress);

  // Of as many sequences as are searched with.
  const Evaluation& evaluation() const { return *full_; }
  // Whether the right model explains the stages.
  bool clean(std::span<const Index> slots) const;
  Explanation explain(const DiagnoseScope& scope);
  // The same set, if it explains the scope: nothing otherwise, without a search.
  std::optional<Explanation> same_as(const Mistakes& mistakes, const DiagnoseScope& scope);
  // Whether `other` leaves no stage noticeably further off than `found` does.
  bool as_good(const Mistakes& other, const Mistakes& found, std::span<const Index> slots) const;

 private:
  struct Candidate {
    Mistakes mistakes;
    Score score;
  };
  using Candidates = std::vector<Candidate>;

  static constexpr double kCleanTimes = 2.5;   // what is explained is within so many roundings
  static constexpr double kWorthwhile = 0.9;   // of cost: about half of one stage's residual
  static constexpr double kNoGain = -1e9;      // of what is not tried
  static constexpr double kFarOff = 1e4;       // of loss: nothing explains so much by chance
  static constexpr std::size_t kRefined = 12;  // sets that are looked at more closely
  static constexpr Index kPrefix = 8;          // tokens of the prefix
  static constexpr double kMostEffort = 1e12;  // multiplications: a minute or so

  // Sets, each of which begins with `start`, the best first.
  Candidates ranked(const std::vector<Mistakes>& sets, std::span<const Index> slots,
                    const Mistakes& start = {});
  const Evaluation& screen(bool ahead) const;
  Arithmetic screening_arithmetic(const Score& base, std::size_t slots) const;
  double price_of(const Mistakes& mistakes) const;
  double effort(const std::vector<Mistakes>& sets) const;
  struct Screened {
    std::vector<double> gains;         // of each set: by how much it lowers the cost
    std::vector<double> moved;         // Score::moved
    bool enough = false;               // one of them comes down to the rounding, from far off
    std::vector<Mistakes> all = {};    // that do
    std::optional<Mistakes> fit = {};  // one that does with its numbers elsewhere
  };
  Screened screened(const std::vector<Mistakes>& sets, std::span<const Index> slots,
                    const Mistakes& start);
  // Of the model with the mistakes of the start.
  static double cost_of(const Evaluation& evaluation, std::span<const Index> slots,
                        const Mistakes& start);
  struct Alone {
    double gain, moved;
  };
  // What is known of a mistake by itself; null: nothing.
  const Alone* alone(const MistakeChoice& mistake) const;
  double most_alone(const Mistakes& set) const;
  std::vector<bool> too_large(const std::vector<Mistakes>& sets, std::span<const Index> slots,
                              const Mistakes& start) const;
  std::vector<bool> too_small(const std::vector<Mistakes>& sets, std::span<const Index> slots,
                              const Mistakes& start) const;
  static bool is_enough(const Score& score, const Score& base, std::size_t slots,
                        Arithmetic arithmetic);
  bool few_serve(const Mistakes& start) const;
  std::vector<Score> crowd_scores(const Evaluation& few, const std::vector<Mistakes>& sets,
                                  const Mistakes& start, Arithmetic arithmetic);
  bool screen_crowd(const std::vector<Mistakes>& sets, std::span<const Index> slots,
                    const Mistakes& start, std::vector<bool>& done, Screened& out);
  std::vector<std::size_t> not_too_far(const std::vector<Mistakes>& sets,
                                       std::vector<std::size_t> which, std::span<const Index> slots,
                                       const Mistakes& start);
  std::vector<Mistakes> without_far_behind(std::vector<Mistakes> sets, const Mistakes& start);
  bool tried_by_few(const DiagnoseScope& scope) const;
  bool told_by_few(const DiagnoseScope& scope, Candidates& next);
  std::vector<std::size_t> likely_first(const std::vector<Mistakes>& sets,
                                        std::vector<std::size_t> which, const Mistakes& start,
                                        double left) const;
  struct Effects {  // of single mistakes on the first tokens
    std::unique_ptr<DiagnoseEffects> sums;
    std::map<std::vector<double>, std::size_t> number;  // by fingerprint
  };
  // Their logits, of the first tokens of what is evaluated.
  static void learn(Effects& effects, const Evaluation& evaluation, const Mistakes& mistake,
                    const Values& logits);
  double left_by(const Effects& effects, const Mistakes& pair) const;
  Index compared_tokens() const;
  std::vector<Mistakes> pairs_of(const DiagnoseScope& scope, const Mistakes& start) const;
  struct Pairs {
    std::vector<Mistakes> causal, ahead;
  };
  Pairs promising_pairs(const DiagnoseScope& scope) const;
  Candidates pairs_by_effects(const DiagnoseScope& scope);
  void learn_later(const std::vector<Mistakes>& sets, std::span<const std::size_t> which);
  std::vector<std::size_t> by_effects(const std::vector<Mistakes>& sets,
                                      std::vector<std::size_t> which);
  bool screen_on(const Evaluation& evaluation, const std::vector<Mistakes>& sets,
                 std::vector<std::size_t> which, std::span<const Index> slots,
                 const Mistakes& start, Screened& out);
  bool screen_in_turn(const Evaluation& evaluation, const std::vector<Mistakes>& sets,
                      std::vector<std::size_t> which, std::span<const Index> slots,
                      const Mistakes& start, Screened& out);
  std::vector<Mistakes> promising(const std::vector<Mistakes>& sets, std::span<const Index> slots,
                                  const Mistakes& start, bool& enough);
  std::vector<Mistakes> best_fits(const std::vector<Mistakes>& sets,
                                  std::span<const Index> slots) const;
  std::vector<Mistakes> fitted_of(const std::vector<Mistakes>& fits, std::span<const Index> slots,
                                  double best) const;
  static std::optional<Mistakes> fit_that_explains(const Evaluation& evaluation,
                                                   const Mistakes& set,
                                                   std::span<const Index> slots, double left);
  std::vector<Mistakes> places_of_number(const DiagnoseScope& scope, const Mistakes& start,
                                         std::string_view name) const;
  Candidates with_numbers(std::vector<Mistakes> sets, const Mistakes& start,
                          std::span<const Index> slots) const;
  bool add_numbers(const DiagnoseScope& scope, const Candidate& found, bool masks,
                   Candidates& next);
  void try_epsilon(const DiagnoseScope& scope, Candidate& found);
  std::vector<Mistakes> extended(const Mistakes& start, const std::vector<Mistakes>& by) const;
  void add_local(const DiagnoseScope& scope, const Candidate& found, Candidates& next);
  bool add_in_one_place(const DiagnoseScope& scope, const Candidate& found, Candidates& next);
  void add_pairs(const DiagnoseScope& scope, const Candidate& found, Candidates& next);
  Candidate one_by_one(const DiagnoseScope& scope, Candidates& singles);
  Candidate by_pairs(const DiagnoseScope& scope, const Mistakes& start, const Candidates& singles);
  Candidate with_pairs(const DiagnoseScope& scope, const Candidate& found,
                       const Candidates& singles);
  std::vector<Index> departing(const Mistakes& mistakes, std::span<const Index> slots,
                               double times) const;
  DiagnoseScope focused(const DiagnoseScope& scope, std::span<const Index> bad) const;
  bool explains(const Candidate& candidate, std::span<const Index> slots) const;
  void prune(Candidate& found, std::span<const Index> slots) const;
  void compare(const DiagnoseScope& scope, const Candidate& found, Explanation& out);
  void remember(const Candidates& candidates);

  const Runtime& run_;
  reference::Numbers numbers_;
  Progress progress_;
  double doubtful_times_;
  // All rows that are searched with; one sequence; its first tokens; and of these a few.
  std::unique_ptr<Replay> full_replay_, sequence_replay_, prefix_replay_, few_replay_;
  std::unique_ptr<Evaluation> full_, sequence_, prefix_, few_;
  bool patient_ = false;                               // more pairs are tried
  Effects early_, later_;                              // on the tokens of the prefix, and on more
  Candidates seen_;                                    // the best of each round
  std::map<std::vector<double>, Alone> alone_;         // of single mistakes, by fingerprint
  std::map<std::vector<double>, Score> crowd_scored_;  // by fingerprint and tokens
};

}  // namespace prenorm
