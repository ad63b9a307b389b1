// Tells before training that there is too little memory for it, rather than in its middle.
//
//   MemoryCheck memory;
//   memory.within([&] {
//     memory.expect(least_training_memory(config));
//     model = ...; memory.expect(plan_memory(*model, ...).total());
//     ...
//   });
#pragma once
#include <cstddef>

#include "prenorm/base/function_ref.h"
#include "prenorm/base/memory_limit.h"

namespace prenorm::cli {

class MemoryCheck {
 public:
  // What is taken from now on counts.
  MemoryCheck() : limit_(memory_limit()) {}

  // Throws MemoryError where training needs this much and the system has less.
  void expect(std::size_t bytes);
  // Runs `work`; where the system refuses memory in it, throws the same MemoryError.
  void within(FunctionRef<void()> work) const;

 private:
  [[noreturn]] void fail() const;

  MemoryLimit limit_;
  std::size_t expected_ = 0;
};

}  // namespace prenorm::cli
