// Nothing is allocated inside a training step or a token's step of generation once the first has
// been made. Counted at malloc, which operator new ends in, and at mmap, where Buffer gets its
// memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "prenorm/model/gpt.h"
#include "tests/config_of.h"
#include "tests/train/small_run.h"

// Sanitizers bring their own malloc.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PRENORM_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PRENORM_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef PRENORM_COUNTS_ALLOCATIONS
#ifdef __GLIBC__
#define PRENORM_COUNTS_ALLOCATIONS 1
#else
#define PRENORM_COUNTS_ALLOCATIONS 0
#endif
#endif

namespace {
std::atomic<long> allocations{0};
}  // namespace

#if PRENORM_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  ++allocations;
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  ++allocations;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
void* mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  ++allocations;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, protection, flags, file, offset));
}
}
#endif

namespace prenorm {
namespace {

class Allocations : public testing::Test {
 protected:
  void SetUp() override {
    if (!PRENORM_COUNTS_ALLOCATIONS) GTEST_SKIP() << "allocations cannot be counted in this build";
  }

  template <typename F>
  static long during(const F& f) {
    const long before = allocations;
    f();
    return allocations - before;
  }
};

TEST_F(Allocations, are_counted) {
  std::vector<int> keep;
  EXPECT_EQ(during([&] { keep.reserve(100); }), 1);
  Buffer buffer;
  EXPECT_EQ(during([&] { buffer = Buffer(std::size_t{1} << 20); }), 1);
}

TEST_F(Allocations, none_in_a_training_step_after_the_first) {
  for (const int threads : {1, 2, 3}) {
    for (const double dropout : {0.0, 0.1}) {
      TrainOptions options = testing_support::small_options();
      options.gradient_accumulation_steps = 2;
      GptConfig config = config_of(2, 4, 48, 16, 11);
      config.attn_pdrop = config.resid_pdrop = config.embd_pdrop = dropout;
      testing_support::SmallRun run(options, {}, config, threads);
      run.trainer->step();
      EXPECT_EQ(during([&] {
                  for (int i = 0; i < 3; ++i) run.trainer->step();
                }),
                0)
          << threads << " threads, dropout " << dropout;
    }
  }
}

TEST_F(Allocations, none_for_a_token_after_the_prompt_and_the_first) {
  for (const bool packed : {false, true}) {
    const Runtime run({.threads = 2});
    Gpt model(config_of(2, 4, 48, 64, 100), Gpt::Mode::kInference);
    model.initialize(1);
    if (packed) model.pack(run);
    const std::vector<TokenId> prompt{1, 2, 3, 4, 5, 6};
    Gpt::Cache cache = model.make_cache(2);
    std::vector<float> logits(200);
    const Matrix last(logits.data(), {2, 100});
    model.decode(run, cache, TokenMatrix(prompt.data(), {2, 3}), last);
    const auto one_token = [&] {
      model.decode(run, cache, TokenMatrix(prompt.data(), {2, 1}), last);
    };
    one_token();
    EXPECT_EQ(during([&] {
                for (int i = 0; i < 30; ++i) one_token();
              }),
              0)
        << (packed ? "packed" : "plain");
  }
}

}  // namespace
}  // namespace prenorm
