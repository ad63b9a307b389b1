#include "prenorm/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>

#include "prenorm/base/error.h"
#include "prenorm/base/stopwatch.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace prenorm {
namespace {

constexpr std::uint32_t kClosed = 0xffffffffu;
constexpr Index kMostPieces = Index{1} << 31;  // of one loop; longer ones are cut
constexpr auto kSpin = std::chrono::microseconds(40);

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `ready` or the spin time is over; true when ready.
template <typename Ready>
bool spin_until(Ready ready) {
  const auto give_up = std::chrono::steady_clock::now() + kSpin;
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      relax();
    }
    if (std::chrono::steady_clock::now() > give_up) return false;
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads) : shares_(static_cast<std::size_t>(std::max(threads, 1))) {
  for (Share& share : shares_) share.ticket.store(kClosed);
  workers_.reserve(static_cast<std::size_t>(std::max(threads - 1, 0)));
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { work(worker); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = workers_.size();
    stop();
    throw Error("threads: expected " + std::to_string(threads) + ", the system gives " +
                std::to_string(started + 1) + " (" + error.code().message() + ")");
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& thread : workers_) thread.join();
  workers_.clear();
}

bool ThreadPool::claim_and_run(int worker) {
  const int shares = threads();
  for (int i = 0; i < shares; ++i) {
    if (claim_and_run(worker, (worker + i) % shares)) return true;
  }
  return false;
}

bool ThreadPool::claim_and_run(int worker, int share) {
  std::atomic<std::uint64_t>& ticket = shares_[static_cast<std::size_t>(share)].ticket;
  std::uint64_t seen = ticket.load(std::memory_order_acquire);
  for (;;) {
    const auto piece = static_cast<std::uint32_t>(seen);
    // If either read meets a later loop's value, that loop's closed tickets happen before it
    // (run_shared() closes, then releases the fields), and the swap below fails.
    const std::uint32_t pieces = pieces_.load(std::memory_order_acquire);
    const Body* body = body_.load(std::memory_order_acquire);
    if (piece >= share_begin(pieces, share + 1, threads())) return false;
    if (ticket.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      (*body)(first_ + static_cast<Index>(piece), worker);
      if (done_.fetch_add(1) + 1 == pieces) done_.notify_one();
      return true;
    }
  }
}

void ThreadPool::run(Index pieces, Body body) {
  if (workers_.empty() || pieces <= 1) {
    for (Index piece = 0; piece < pieces; ++piece) body(piece, 0);
    return;
  }
  for (Index first = 0; first < pieces; first += kMostPieces) {
    run_shared(first, static_cast<std::uint32_t>(std::min(kMostPieces, pieces - first)), body);
  }
}

void ThreadPool::run_shared(Index first, std::uint32_t count, const Body& body) {
  const std::uint64_t loop = ++loop_ << 32;
  for (Share& share : shares_) share.ticket.store(loop | kClosed, std::memory_order_relaxed);
  body_.store(&body, std::memory_order_release);
  pieces_.store(count, std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  first_ = first;
  for (int share = 0; share < threads(); ++share) {
    const Index begin = share_begin(count, share, threads());
    shares_[static_cast<std::size_t>(share)].ticket.store(loop | static_cast<std::uint64_t>(begin),
                                                          std::memory_order_release);
  }
  // Sequentially consistent, as are done_'s additions: a sleeper either sees the new value or is
  // seen by notify.
  epoch_.fetch_add(1);
  epoch_.notify_all();
  while (claim_and_run(0)) {
  }
  if (!measure_waits_) return wait_for(count);
  const auto start = Clock::now();
  wait_for(count);
  waited_ += seconds_since(start);
}

void ThreadPool::measure_waits(bool on) {
  measure_waits_ = on;
  waited_ = 0.0;
}

void ThreadPool::wait_for(std::uint32_t count) {
  const auto finished = [&] { return done_.load(std::memory_order_acquire) == count; };
  while (!spin_until(finished)) {
    const std::uint32_t seen = done_.load(std::memory_order_acquire);
    if (seen != count) done_.wait(seen, std::memory_order_acquire);
  }
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    const auto called = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    while (!spin_until(called)) epoch_.wait(seen, std::memory_order_acquire);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    while (claim_and_run(worker)) {
    }
  }
}

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    const int count = CPU_COUNT(&set);
    if (count > 0) return count;
  }
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : static_cast<int>(count);
}

}  // namespace prenorm
