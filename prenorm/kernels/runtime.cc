#include "prenorm/kernels/runtime.h"

#include <string>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

constexpr int kMaxThreads = 1024;

int checked_threads(int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    throw ConfigError("threads: expected 0 (all) to " + std::to_string(kMaxThreads) + ", found " +
                      std::to_string(threads));
  }
  return threads == 0 ? available_threads() : threads;
}

}  // namespace

Runtime::Runtime(const Options& options)
    : pool_(checked_threads(options.threads)),
      isa_(isa_from_name(options.isa)),
      workers_(static_cast<std::size_t>(pool_.threads())) {}

float* Runtime::shared_scratch(std::size_t floats) const {
  if (shared_.size() < floats * sizeof(float)) {
    shared_ = Buffer();  // free the old one first: it holds nothing that is still wanted
    shared_ = Buffer(floats * sizeof(float));
  }
  return shared_.floats().data();
}

void Runtime::reserve_worker_scratch(std::size_t floats) const {
  if (workers_.front().size() >= floats * sizeof(float)) return;
  for (Buffer& buffer : workers_) {
    buffer = Buffer();
    buffer = Buffer(floats * sizeof(float));
  }
}

std::size_t Runtime::scratch_bytes() const {
  std::size_t bytes = shared_.size();
  for (const Buffer& buffer : workers_) bytes += buffer.size();
  return bytes;
}

}  // namespace prenorm
