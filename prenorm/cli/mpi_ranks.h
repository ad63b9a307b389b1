// Ranks over MPI. A thread of its own makes all calls of MPI, so that messages go on their way
// while the others compute; a rank that waits sleeps, and its core is its neighbours'.
//
//   MpiRanks ranks(functions, {.timeout_seconds = 300});
//   Trainer trainer(run, model, data, options, callbacks, {&ranks});
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "prenorm/cli/mpi_module.h"
#include "prenorm/train/ranks.h"

namespace prenorm::cli {

class MpiRanks : public Ranks {
 public:
  struct Options {
    // A rank that waits for longer finds out which one is to blame and ends them all; 0: never.
    double timeout_seconds = 300.0;
    // Given the line that says so, before the end.
    std::function<void(const std::string& line)> on_stall = {};
  };

  // Starts MPI and returns once every rank has. `functions` must outlive it.
  MpiRanks(const MpiFunctions& functions, Options options);
  // Waits for the other ranks to come here too.
  ~MpiRanks() override;
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Request send(std::span<const std::byte> message, int to, int tag) override;
  Request receive(std::span<std::byte> message, int from, int tag) override;
  Request sum_at(std::span<float> numbers, int to) override;
  bool done(Request request) override;
  void wait(Request request) override;
  void at_step(Index step) override { step_ = step; }

  // Before at_step(): what it is doing, for whoever waits for it.
  void set_timeout(double seconds) { options_.timeout_seconds = seconds; }
  // Ends all ranks with this code.
  [[noreturn]] void abort(int code);

 private:
  enum class Kind { kSend, kReceive, kSum };
  struct Job {
    Kind kind = Kind::kSend;
    void* memory = nullptr;
    std::size_t count = 0;
    int peer = 0, tag = 0;
    Request id = 0;
  };
  struct Pending {
    int parts = 0;  // of messages beyond kMostBytes
    int peer = 0;
    bool queued = false;  // in its peer's queue
  };
  struct Queue {
    std::deque<Job> waiting;
    int on_their_way = 0;
  };
  // What a rank says of itself when it is asked.
  struct Answer {
    std::int64_t step = -1, waits_for = -1;
  };

  Request begin(Kind kind, void* memory, std::size_t count, std::size_t most, int peer, int tag);
  void serve();
  void begin_sends(Queue& queue, std::unique_lock<std::mutex>& lock);
  void begin_job(const Job& job, std::unique_lock<std::mutex>& lock);
  bool collect(std::unique_lock<std::mutex>& lock);
  void expect_question();
  void answer();
  [[noreturn]] void blame(int peer);

  const MpiFunctions& functions_;
  Options options_;
  int rank_ = 0, size_ = 1;

  std::mutex mutex_;  // of what follows
  std::condition_variable to_server_, to_caller_;
  std::deque<Job> jobs_;
  std::map<Request, Pending> pending_;
  std::map<int, Queue> queues_;  // of messages to each rank
  Request last_ = 0;
  bool started_ = false, stopping_ = false;
  int abort_code_ = -1;

  std::atomic<bool> caller_waits_ = false;
  std::atomic<std::int64_t> step_ = -1, waits_for_ = -1;
  std::int64_t question_ = -1;  // the server's: who asks
  std::deque<Answer> answers_;  // the server's: on their way out
  std::thread server_;
};

}  // namespace prenorm::cli
