// Memory is described once and walked twice: a measuring arena adds up bytes, a placing arena hands
// out the same addresses. No list of sizes to keep in step with a list of pointers.
//
//   Arena measure;
//   layer.plan(measure, rows);
//   Buffer memory(measure.used());
//   Arena place(memory.bytes());
//   auto saved = layer.plan(place, rows);
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "prenorm/base/error.h"
#include "prenorm/tensor/view.h"

namespace prenorm {

class Arena {
 public:
  static constexpr std::size_t kAlignment = 64;

  Arena() = default;                                                   // measures
  explicit Arena(std::span<std::byte> storage) : storage_(storage) {}  // places

  // A view of the given shape; its data is null while measuring. Placed memory is not cleared.
  template <typename T, int Rank>
  View<T, Rank> take(const std::array<Index, Rank>& shape) {
    std::size_t count = 1;
    for (Index d : shape) count *= static_cast<std::size_t>(d);
    return View<T, Rank>(static_cast<T*>(place(count * sizeof(T))), shape);
  }
  Vector vector(Index n) { return take<float, 1>({n}); }
  Matrix matrix(Index rows, Index columns) { return take<float, 2>({rows, columns}); }

  std::size_t used() const { return used_; }

  // Both take from the same place on; the arena goes on after the larger. For buffers whose lives
  // do not overlap.
  template <typename First, typename Second>
  void overlap(const First& first, const Second& second) {
    const std::size_t start = used_;
    first();
    const std::size_t end = used_;
    used_ = start;
    second();
    used_ = end > used_ ? end : used_;
  }

 private:
  void* place(std::size_t bytes) {
    const std::size_t offset = used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (storage_.empty()) return nullptr;
    if (used_ > storage_.size()) throw Error("arena: plan and placement disagree");
    return storage_.data() + offset;
  }

  std::span<std::byte> storage_;
  std::size_t used_ = 0;
};

}  // namespace prenorm
