#include "prenorm/train/ranks.h"

#include <algorithm>

#include "prenorm/train/parameter_chunks.h"

namespace prenorm {
namespace {

// Tags of these functions; a step's are below them.
enum Tag : int { kExchange = 1 << 20, kShare, kGather };

}  // namespace

bool any(Ranks& ranks, bool here) {
  if (ranks.size() == 1) return here;
  const double own = here ? 1.0 : 0.0;
  const std::vector<std::size_t> counts(static_cast<std::size_t>(ranks.size()), 1);
  const std::vector<double> all = exchange(ranks, {&own, 1}, counts);
  return std::ranges::any_of(all, [](double flag) { return flag != 0.0; });
}

// Bruck's: in each round everything that is known goes 1, 2, 4, … ranks down, so that what a rank
// knows is its own, that of the rank above, and so on around.
std::vector<double> exchange(Ranks& ranks, std::span<const double> own,
                             std::span<const std::size_t> counts) {
  const int size = ranks.size(), rank = ranks.rank();
  const auto count_of = [&](int first, int many) {
    std::size_t sum = 0;
    for (int r = first; r < first + many; ++r) sum += counts[static_cast<std::size_t>(r % size)];
    return sum;
  };
  std::vector<double> known(count_of(0, size));
  std::ranges::copy(own, known.begin());
  for (int have = 1; have < size; have *= 2) {
    const int more = std::min(have, size - have);
    const int below = (rank - have + size) % size, above = (rank + have) % size;
    // The rank below has as many and takes the first `more` of ours.
    const std::span<double> all = known;
    const auto out = all.first(count_of(rank, more));
    const auto in = all.subspan(count_of(rank, have), count_of(rank + have, more));
    const Ranks::Request arriving = ranks.receive(message_of(in), above, kExchange);
    ranks.wait(ranks.send(message_of(out), below, kExchange));
    ranks.wait(arriving);
  }
  // From "mine first" to "rank 0 first".
  const auto rank0 = static_cast<std::ptrdiff_t>(count_of(rank, size - rank));
  std::rotate(known.begin(), known.begin() + (rank == 0 ? 0 : rank0), known.end());
  return known;
}

void share_parts(Ranks& ranks, std::span<float> numbers, const ParameterChunks& parts) {
  const int size = ranks.size(), rank = ranks.rank();
  const int before = (rank + size - 1) % size, after = (rank + 1) % size;
  const auto part = [&](int of) {
    const int r = (of + size) % size;
    return message_of(numbers.subspan(parts.begin(r), parts.size(r)));
  };
  // All receives stand ready; a part goes on as soon as it is here.
  std::vector<Ranks::Request> arriving, leaving;
  for (int k = 1; k < size; ++k) arriving.push_back(ranks.receive(part(rank - k), before, kShare));
  for (int k = 0; k + 1 < size; ++k) {
    if (k > 0) ranks.wait(arriving[static_cast<std::size_t>(k - 1)]);
    leaving.push_back(ranks.send(part(rank - k), after, kShare));
  }
  if (size > 1) ranks.wait(arriving.back());
  for (const Ranks::Request request : leaving) ranks.wait(request);
}

void gather_parts(Ranks& ranks, std::span<float> numbers, const ParameterChunks& parts) {
  if (ranks.rank() != 0) {
    ranks.wait(ranks.send(message_of(numbers), 0, kGather));
    return;
  }
  std::vector<Ranks::Request> arriving;
  for (int r = 1; r < ranks.size(); ++r) {
    arriving.push_back(
        ranks.receive(message_of(numbers.subspan(parts.begin(r), parts.size(r))), r, kGather));
  }
  for (const Ranks::Request request : arriving) ranks.wait(request);
}

}  // namespace prenorm
