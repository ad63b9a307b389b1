// A pool of workers for short, data-parallel loops inside a training step.
//
//   pool.run(pieces, [&](Index piece, int worker) { ... });
//
// Each worker begins with a share of its own, of pieces that follow one another, so that where one
// loop's pieces are the same rows as the next one's a worker finds in its cache what it wrote.
// Pieces are claimed one at a time, and whoever has no more of its own takes from the others, so a
// worker that the operating system holds up delays only the piece it holds. Which worker ran which
// piece must never change a bit of the result. Workers spin briefly after each loop, then sleep.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "prenorm/base/function_ref.h"
#include "prenorm/base/index.h"

namespace prenorm {

class ThreadPool {
 public:
  using Body = FunctionRef<void(Index piece, int worker)>;

  // Requires: threads >= 1. The calling thread is one of them. Throws Error when the system does
  // not give so many.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(piece, worker) once for each piece in [0, pieces); returns when all are done.
  // worker is in [0, threads()) and no two running calls share it. The body must not throw and
  // must not call run() on the same pool. One caller at a time.
  void run(Index pieces, Body body);

  // The first piece of a share, of so many: share 0 is the caller's, `of` is threads().
  static constexpr Index share_begin(Index pieces, int share, int of) {
    return pieces * share / of;
  }

  // Seconds that the caller has waited at the ends of loops for the other workers' last pieces,
  // since measuring them was switched on.
  void measure_waits(bool on);
  double waited() const { return waited_; }

 private:
  void work(int worker);
  void stop();
  bool claim_and_run(int worker);
  bool claim_and_run(int worker, int share);
  void wait_for(std::uint32_t count);
  void run_shared(Index first, std::uint32_t count, const Body& body);

  // A share's ticket holds the loop's number in its upper half and the share's next piece in its
  // lower half; a worker claims a piece with one compare-and-swap, which fails if the loop is over.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> ticket;
  };
  std::vector<Share> shares_;
  std::uint64_t loop_ = 0;
  alignas(64) std::atomic<const Body*> body_{nullptr};
  std::atomic<std::uint32_t> pieces_{0};
  Index first_ = 0;  // the piece that the tickets count from; read by holders of a piece only
  alignas(64) std::atomic<std::uint32_t> done_{0};
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> stop_{false};
  bool measure_waits_ = false;
  double waited_ = 0.0;
  std::vector<std::thread> workers_;
};

// Threads that this process may run on: its affinity mask, not the machine's count.
int available_threads();

}  // namespace prenorm
