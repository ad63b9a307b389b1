// `prenorm train` as one of several processes that mpirun (or srun) has started: who they are, that
// they fail together, and that one of them speaks for all.
//
//   const auto session = RankSession::open(options);     // null: this process is alone
//   session->together([&] { set_up(); });                // fails on all ranks or on none
//   session->until_the_end([&] { train(); });            // a rank that fails ends all
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "prenorm/cli/mpi_ranks.h"
#include "prenorm/cli/verb.h"
#include "prenorm/train/plan.h"
#include "prenorm/train/trainer.h"

namespace prenorm::cli {

// How many processes the launcher says there are; nothing where none has started this one. `get`
// is getenv: Open MPI, MPICH's and Slurm's variables are known.
std::optional<int> launched_ranks(const std::function<const char*(const char*)>& get);

// Threads for a rank of which `sharing` on its machine, itself included, may use the same `cores`.
int threads_for_rank(int cores, int sharing);

class RankSession {
 public:
  // Null where there is only this process. Throws ConfigError where there are more and this build
  // has no MPI.
  static std::unique_ptr<RankSession> open(double timeout_seconds);
  RankSession(const MpiFunctions& functions, double timeout_seconds);

  MpiRanks& ranks() { return ranks_; }
  bool first() const { return ranks_.rank() == 0; }
  // Where a rank prints: the first as the program, the others nowhere.
  Streams streams(const Streams& program);
  // Threads for this rank where none are asked for: the cores it may use, shared fairly with the
  // ranks beside it.
  int threads();

  // Runs body() on every rank. If one fails, the lowest that did says why, and all throw Ended with
  // its exit code.
  void together(const std::function<void()>& body);
  // Runs body() here. A failure is told and ends all ranks, unless it is one that all of them come
  // to (numbers that stopped being finite): that is told once, and all throw Ended.
  void until_the_end(const std::function<void()>& body);
  // All ranks have the same weights, data and position; else fails, as together().
  void require_same(const Trainer& trainer);
  // What a plan for one rank alone is for each of these.
  void share(TrainingPlan& plan) const;
  // Lines on how the step is dealt among the ranks.
  void tell_plan(const Gpt& model, const TrainOptions& options, const Streams& streams) const;
  // The largest of all ranks.
  int largest(int number);

  struct Ended {
    int code = 0;
  };

 private:
  void require_same(std::uint64_t number, const char* what);
  void tell(const std::string& message) const;

  MpiRanks ranks_;
  Output nowhere_;
};

}  // namespace prenorm::cli
