#include "prenorm/cli/mpi_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Above those of the training step and of ranks.cc.
enum Tag : int { kSum = (1 << 20) + 100, kQuestion, kAnswer };

constexpr MpiRanks::Request kQuestionId = ~MpiRanks::Request{0};

// How long the server sleeps between two looks: while somebody waits and while it computes. A look
// costs the one who computes about 30 us.
constexpr auto kShortNap = microseconds(50), kLongNap = microseconds(2000);
// Nothing is on its way but, perhaps, a question.
constexpr auto kIdleNap = microseconds(20000);
constexpr auto kAnswerTime = milliseconds(1500);
constexpr auto kPoliteness = std::chrono::seconds(5);

}  // namespace

MpiRanks::MpiRanks(const MpiFunctions& functions, Options options)
    : functions_(functions), options_(std::move(options)) {
  server_ = std::thread([this] { serve(); });
  std::unique_lock lock(mutex_);
  to_caller_.wait(lock, [this] { return started_; });
}

MpiRanks::~MpiRanks() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  to_server_.notify_all();
  server_.join();
}

MpiRanks::Request MpiRanks::begin(Kind kind, void* memory, std::size_t count, std::size_t most,
                                  int peer, int tag) {
  const std::size_t unit = kind == Kind::kSum ? sizeof(float) : 1;
  const std::lock_guard lock(mutex_);
  const Request id = ++last_;
  Pending& pending = pending_[id];
  pending.peer = peer;
  std::size_t at = 0;
  do {  // a message of no bytes is one, too
    const std::size_t part = std::min(most, count - at);
    jobs_.push_back({kind, static_cast<std::byte*>(memory) + at * unit, part, peer, tag, id});
    ++pending.parts;
    at += part;
  } while (at < count);
  to_server_.notify_one();
  return id;
}

MpiRanks::Request MpiRanks::send(std::span<const std::byte> message, int to, int tag) {
  return begin(Kind::kSend, const_cast<std::byte*>(message.data()), message.size(), kMostBytes, to,
               tag);
}

MpiRanks::Request MpiRanks::receive(std::span<std::byte> message, int from, int tag) {
  return begin(Kind::kReceive, message.data(), message.size(), kMostBytes, from, tag);
}

MpiRanks::Request MpiRanks::sum_at(std::span<float> numbers, int to) {
  return begin(Kind::kSum, numbers.data(), numbers.size(), kMostBytes / sizeof(float), to, kSum);
}

bool MpiRanks::done(Request request) {
  const std::lock_guard lock(mutex_);
  return !pending_.contains(request);
}

void MpiRanks::wait(Request request) {
  std::unique_lock lock(mutex_);
  const auto found = pending_.find(request);
  if (found == pending_.end()) return;
  const int peer = found->second.peer;
  waits_for_ = peer;
  caller_waits_ = true;
  to_server_.notify_one();  // it may be in a long nap
  const auto is_done = [&] { return !pending_.contains(request); };
  bool in_time = true;
  if (options_.timeout_seconds > 0) {
    in_time =
        to_caller_.wait_for(lock, std::chrono::duration<double>(options_.timeout_seconds), is_done);
  } else {
    to_caller_.wait(lock, is_done);
  }
  lock.unlock();
  if (!in_time) blame(peer);
  caller_waits_ = false;
  waits_for_ = -1;
}

// ---- the server's thread ------------------------------------------------------------------------

void MpiRanks::serve() {
  functions_.start(&rank_, &size_);
  expect_question();
  std::unique_lock lock(mutex_);
  started_ = true;
  to_caller_.notify_all();
  auto nap = kShortNap;
  for (;;) {
    const bool work = !jobs_.empty();
    while (!jobs_.empty()) {
      const Job job = jobs_.front();
      jobs_.pop_front();
      if (job.kind == Kind::kSend && job.tag < kQuestion) {
        queues_[job.peer].waiting.push_back(job);
        begin_sends(queues_[job.peer], lock);
      } else {
        begin_job(job, lock);
      }
    }
    if (abort_code_ >= 0) functions_.abort(abort_code_);
    const bool news = collect(lock);
    if (!jobs_.empty()) continue;
    if (stopping_ && pending_.empty()) break;
    // While the caller computes, looking costs it time: less often, the longer nothing happens.
    nap = work || news || caller_waits_ ? kShortNap : std::min(2 * nap, kLongNap);
    to_server_.wait_for(lock, pending_.empty() ? kIdleNap : nap, [this, nap] {
      const bool hurry = caller_waits_ && nap > kShortNap;
      return !jobs_.empty() || hurry || stopping_ || abort_code_ >= 0;
    });
  }
  lock.unlock();
  functions_.stop();
}

// The gradient of a stage is wanted before that of the next: messages to a rank go one after
// another, two at a time so that the next one's greeting is not waited for, instead of all at once
// and all late.
void MpiRanks::begin_sends(Queue& queue, std::unique_lock<std::mutex>& lock) {
  constexpr int kAtOnce = 2;
  while (!queue.waiting.empty() && queue.on_their_way < kAtOnce) {
    const Job job = queue.waiting.front();
    queue.waiting.pop_front();
    ++queue.on_their_way;
    pending_[job.id].queued = true;
    begin_job(job, lock);
  }
}

// Without the lock, so that the caller never waits for a message's bytes to be copied.
void MpiRanks::begin_job(const Job& job, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  switch (job.kind) {
    case Kind::kSend:
      functions_.send(job.memory, job.count, job.peer, job.tag, job.id);
      break;
    case Kind::kReceive:
      functions_.receive(job.memory, job.count, job.peer, job.tag, job.id);
      break;
    case Kind::kSum:
      functions_.sum_at(static_cast<float*>(job.memory), job.count, job.peer, job.id);
      break;
  }
  lock.lock();
}

// True where a message of the caller's is done.
bool MpiRanks::collect(std::unique_lock<std::mutex>& lock) {
  std::array<std::uint64_t, 64> ids;
  bool news = false;
  for (std::size_t count = ids.size(); count == ids.size();) {
    lock.unlock();
    count = functions_.finished(ids.data(), ids.size());
    lock.lock();
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] == kQuestionId) {
        answer();
        continue;
      }
      const auto found = pending_.find(ids[i]);
      if (found == pending_.end()) continue;
      if (found->second.queued) {
        Queue& queue = queues_[found->second.peer];
        --queue.on_their_way;
        begin_sends(queue, lock);
      }
      if (--found->second.parts > 0) continue;
      pending_.erase(found);
      news = true;
    }
  }
  if (news) to_caller_.notify_all();
  return news;
}

void MpiRanks::expect_question() {
  if (size_ > 1) functions_.receive(&question_, sizeof question_, -1, kQuestion, kQuestionId);
}

// Another rank waits for too long. One message to it, and ready for the next question.
void MpiRanks::answer() {
  const auto to = static_cast<int>(question_);
  answers_.push_back({step_.load(), waits_for_.load()});
  const Request id = ++last_;
  pending_[id] = {1, to};
  functions_.send(&answers_.back(), sizeof(Answer), to, kAnswer, id);
  expect_question();
}

// ---- the end of all ranks -----------------------------------------------------------------------

// All are asked at once what they are doing. To blame is one that does not answer; else one that
// waits for nobody; else the one that was waited for.
void MpiRanks::blame(int peer) {
  struct Asked {
    std::int64_t from = 0;
    Answer answer;
    Request arriving = 0;
  };
  // Never freed: the machinery may write to it until the process ends.
  auto& asked = *new std::vector<Asked>(static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    Asked& a = asked[static_cast<std::size_t>(r)];
    a.from = rank_;
    a.arriving = receive(std::as_writable_bytes(std::span(&a.answer, 1)), r, kAnswer);
    send(std::as_bytes(std::span(&a.from, 1)), r, kQuestion);
  }
  const auto all_answered = [&] {
    return std::ranges::none_of(asked,
                                [&](const Asked& a) { return pending_.contains(a.arriving); });
  };
  std::unique_lock lock(mutex_);
  to_caller_.wait_for(lock, kAnswerTime, all_answered);
  int guilty = peer;
  std::string what =
      fmt::format("waiting in step {}", asked[static_cast<std::size_t>(peer)].answer.step);
  for (int r = size_ - 1; r >= 0; --r) {
    const Asked& a = asked[static_cast<std::size_t>(r)];
    if (r == rank_ || pending_.contains(a.arriving) || a.answer.waits_for >= 0) continue;
    guilty = r;
    what = fmt::format("still at work in step {}", a.answer.step);
  }
  for (int r = size_ - 1; r >= 0; --r) {
    if (!pending_.contains(asked[static_cast<std::size_t>(r)].arriving)) continue;
    guilty = r;
    what = "stopped";
  }
  bool another_tells = false;  // the lowest of those that wait; it ends this rank, too
  for (int r = 0; r < rank_; ++r) {
    const Asked& a = asked[static_cast<std::size_t>(r)];
    another_tells |= !pending_.contains(a.arriving) && a.answer.waits_for >= 0;
  }
  lock.unlock();
  if (another_tells) std::this_thread::sleep_for(kPoliteness);
  if (options_.on_stall) {
    options_.on_stall(fmt::format(
        "rank {}: expected its part of step {} within {:g} s (--rank-timeout), found it {}", guilty,
        step_.load(), options_.timeout_seconds, what));
  }
  abort(kBadInput);
}

void MpiRanks::abort(int code) {
  {
    const std::lock_guard lock(mutex_);
    abort_code_ = code;
  }
  to_server_.notify_all();
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace prenorm::cli
