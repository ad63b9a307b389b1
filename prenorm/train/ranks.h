// The processes that train one model together: what each of them can say to the others.
//
// An implementation sends and receives; what is made of that (sums, agreement, sharing parts) is
// below and the same for all of them. Every rank makes the same calls in the same order.
//
//   if (any(ranks, interrupted)) stop();
//   share_parts(ranks, values, chunks);      // each rank's part to all others
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "prenorm/base/index.h"

namespace prenorm {

class ParameterChunks;

class Ranks {
 public:
  // Of a message on its way; it counts up, so that 0 is none.
  using Request = std::uint64_t;

  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Both return at once; the memory is the message's until wait(). Messages from one rank to
  // another arrive in the order in which they were sent, those with different tags each in theirs.
  virtual Request send(std::span<const std::byte> message, int to, int tag) = 0;
  virtual Request receive(std::span<std::byte> message, int from, int tag) = 0;
  // The sum over all ranks, in whatever order is fastest, at rank `to`; what the others hold
  // afterwards is not said. Every rank calls it in the same order.
  virtual Request sum_at(std::span<float> numbers, int to) = 0;
  virtual bool done(Request request) = 0;
  // Returns once it is done. A rank that has waited for too long ends them all: it does not return.
  virtual void wait(Request request) = 0;
  // What the others are told where this rank keeps them waiting.
  virtual void at_step(Index step) = 0;
};

// Numbers as the bytes of a message.
template <typename T>
std::span<std::byte> message_of(std::span<T> numbers) {
  return std::as_writable_bytes(numbers);
}

// True on every rank where it is true on one.
bool any(Ranks& ranks, bool here);

// The numbers of all ranks one after another; counts[r] of them are rank r's. Every rank ends with
// the same, after log2(size) messages.
std::vector<double> exchange(Ranks& ranks, std::span<const double> own,
                             std::span<const std::size_t> counts);

// Each rank's part of `numbers` to all others, around a ring.
void share_parts(Ranks& ranks, std::span<float> numbers, const ParameterChunks& parts);

// Every part at rank 0: there `numbers` are all, elsewhere the rank's own part.
void gather_parts(Ranks& ranks, std::span<float> numbers, const ParameterChunks& parts);

}  // namespace prenorm
