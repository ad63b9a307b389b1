// What a computation runs on: threads, instruction set, scratch memory. Made once by the program
// and passed down; nothing in the library is global. One Runtime serves one caller at a time.
//
//   Runtime run(Runtime::Options{.threads = 2});
//   model.forward(run, ...);
#pragma once
#include <cstddef>
#include <vector>

#include "prenorm/base/thread_pool.h"
#include "prenorm/kernels/isa.h"
#include "prenorm/tensor/buffer.h"

namespace prenorm {

class Profile;

class Runtime {
 public:
  struct Options {
    int threads = 0;                // 0: as many as this process may use
    std::string_view isa = "auto";  // or a name of isa.h
  };

  // Throws UnsupportedCpu or ConfigError.
  explicit Runtime(const Options& options);
  Runtime() : Runtime(Options()) {}

  ThreadPool& pool() const { return pool_; }
  Isa isa() const { return isa_; }
  int threads() const { return pool_.threads(); }

  // Scratch that all pieces of one loop share, and scratch for each worker alone. Grown when a
  // kernel asks for more than before, so that a second step allocates nothing; valid until the
  // next call of the same function. Call outside parallel loops.
  float* shared_scratch(std::size_t floats) const;
  void reserve_worker_scratch(std::size_t floats) const;
  float* worker_scratch(int worker) const {
    return workers_[static_cast<std::size_t>(worker)].floats().data();
  }
  std::size_t scratch_bytes() const;

  // Kernels add their times to it; null: they measure nothing. It must outlive the calls.
  void set_profile(Profile* profile) const { profile_ = profile; }
  Profile* profile() const { return profile_; }

 private:
  mutable ThreadPool pool_;
  Isa isa_;
  mutable Buffer shared_;
  mutable std::vector<Buffer> workers_;
  mutable Profile* profile_ = nullptr;
};

}  // namespace prenorm
