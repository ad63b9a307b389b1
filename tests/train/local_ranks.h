// Ranks that are threads of one process: what the tests train with.
//
//   in_ranks(4, [](Ranks& ranks) { ... });       // the same function on four threads
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "prenorm/train/ranks.h"

namespace prenorm::testing_support {

// The letters between them. A message is copied when it is sent, so that it has left at once.
class PostOffice {
 public:
  using Address = std::tuple<int, int, int>;  // from, to, tag
  using Letter = std::vector<std::byte>;

  void post(const Address& address, std::span<const std::byte> message) {
    const std::lock_guard lock(mutex_);
    boxes_[address].emplace_back(message.begin(), message.end());
    arrived_.notify_all();
  }
  // Whether the letter with this number among those of the address is here; taken if so.
  bool take(const Address& address, std::span<std::byte> into, bool wait) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[address];
    if (wait) arrived_.wait(lock, [&] { return !box.empty(); });
    if (box.empty()) return false;
    if (box.front().size() != into.size()) throw std::logic_error("a message of another length");
    if (!into.empty()) std::memcpy(into.data(), box.front().data(), into.size());
    box.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Address, std::deque<Letter>> boxes_;
};

class LocalRanks : public Ranks {
 public:
  LocalRanks(PostOffice& office, int rank, int size) : office_(office), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Request send(std::span<const std::byte> message, int to, int tag) override {
    bytes_sent += message.size();
    office_.post({rank_, to, tag}, message);
    return 0;
  }
  Request receive(std::span<std::byte> message, int from, int tag) override {
    expected_[++last_] = {{from, rank_, tag}, message};
    return last_;
  }
  // In order of the ranks here: any other would do.
  Request sum_at(std::span<float> numbers, int to) override {
    constexpr int kTag = 1 << 29;
    if (rank_ != to) return send(message_of(numbers), to, kTag);
    for (int r = 0; r < size_; ++r) {
      if (r == to) continue;
      std::vector<float> theirs(numbers.size());
      wait(receive(message_of(std::span<float>(theirs)), r, kTag));
      for (std::size_t i = 0; i < theirs.size(); ++i) numbers[i] += theirs[i];
    }
    return 0;
  }
  bool done(Request request) override { return finish(request, false); }
  void wait(Request request) override { finish(request, true); }
  void at_step(Index step) override { steps.push_back(step); }

  std::size_t bytes_sent = 0;
  std::vector<Index> steps;

 private:
  struct Expected {
    PostOffice::Address address;
    std::span<std::byte> memory;
  };

  // Letters of one address belong to its receives in the order in which they were posted.
  bool finish(Request request, bool wait) {
    const auto found = expected_.find(request);
    if (found == expected_.end()) return true;
    for (auto it = expected_.begin(); it != found;) {
      if (it->second.address != found->second.address) {
        ++it;
        continue;
      }
      if (!office_.take(it->second.address, it->second.memory, wait)) return false;
      it = expected_.erase(it);
    }
    if (!office_.take(found->second.address, found->second.memory, wait)) return false;
    expected_.erase(found);
    return true;
  }

  PostOffice& office_;
  int rank_, size_;
  Request last_ = 0;
  std::map<Request, Expected> expected_;
};

// Runs function(ranks) on `size` threads. An exception of one of them is rethrown once all have
// ended, so a test in which one throws needs all to.
template <typename Function>
void in_ranks(int size, const Function& function) {
  PostOffice office;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        LocalRanks ranks(office, r, size);
        function(ranks);
      } catch (...) {
        errors[static_cast<std::size_t>(r)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace prenorm::testing_support
