// MpiFunctions whose ranks are threads of this process: what MpiRanks is tested on. Each thread
// that calls start() is the next rank.
#pragma once
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "prenorm/cli/mpi_module.h"
#include "prenorm/cli/mpi_ranks.h"

namespace prenorm::cli::fake_mpi {

struct Letter {
  int from = 0;
  std::vector<std::byte> bytes;
};

struct World {
  std::mutex mutex;
  int size = 1, started = 0, stopped = 0;
  std::map<std::pair<int, int>, std::deque<Letter>> boxes;  // by receiver and tag
  std::size_t largest_message = 0;
};

inline World world;

struct Waiting {
  std::byte* memory = nullptr;
  std::size_t count = 0;
  int from = 0, tag = 0;
  std::uint64_t id = 0;
};

inline thread_local int rank = 0;
inline thread_local std::vector<Waiting> waiting;
inline thread_local std::vector<std::uint64_t> sent;

inline void start(int* out_rank, int* out_size) {
  const std::lock_guard lock(world.mutex);
  *out_rank = rank = world.started++;
  *out_size = world.size;
}

inline void send(const void* message, std::size_t count, int to, int tag, std::uint64_t id) {
  const std::lock_guard lock(world.mutex);
  const auto* bytes = static_cast<const std::byte*>(message);
  world.boxes[{to, tag}].push_back({rank, {bytes, bytes + count}});
  world.largest_message = std::max(world.largest_message, count);
  sent.push_back(id);
}

inline void receive(void* message, std::size_t count, int from, int tag, std::uint64_t id) {
  waiting.push_back({static_cast<std::byte*>(message), count, from, tag, id});
}

// Nothing is added: which call arrived is what is tested.
inline void sum_at(float*, std::size_t, int, std::uint64_t id) { sent.push_back(id); }

// The first letter for a receive that no earlier receive is for.
inline bool deliver(const Waiting& to) {
  auto& box = world.boxes[{rank, to.tag}];
  for (auto it = box.begin(); it != box.end(); ++it) {
    if (to.from >= 0 && it->from != to.from) continue;
    if (it->bytes.size() != to.count) std::abort();
    if (to.count > 0) std::memcpy(to.memory, it->bytes.data(), to.count);
    box.erase(it);
    return true;
  }
  return false;
}

inline std::size_t finished(std::uint64_t* ids, std::size_t room) {
  const std::lock_guard lock(world.mutex);
  std::size_t count = 0;
  while (count < room && !sent.empty()) {
    ids[count++] = sent.back();
    sent.pop_back();
  }
  for (std::size_t i = 0; i < waiting.size() && count < room;) {
    const Waiting to = waiting[i];
    if (deliver(to)) {
      ids[count++] = to.id;
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return count;
}

inline void abort(int code) { _exit(code); }

inline void stop() {
  const std::lock_guard lock(world.mutex);
  ++world.stopped;
}

inline constexpr MpiFunctions kFunctions = {start, send, receive, sum_at, finished, abort, stop};

// Runs function(ranks) on `size` threads.
template <typename Function>
void in_ranks(int size, const MpiRanks::Options& options, const Function& function) {
  world.size = size;
  world.started = world.stopped = 0;
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&] {
      MpiRanks ranks(kFunctions, options);
      function(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace prenorm::cli::fake_mpi
