#include "prenorm/base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>

namespace prenorm {
namespace {

int call(FunctionRef<int(int)> f, int x) { return f(x); }

TEST(FunctionRef, calls_lambdas_and_objects) {
  int offset = 3;
  EXPECT_EQ(call([&](int x) { return x + offset; }, 4), 7);
  struct Counter {
    int calls = 0;
    int operator()(int x) { return x + ++calls; }
  } counter;
  EXPECT_EQ(call(counter, 10), 11);
  EXPECT_EQ(call(counter, 10), 12);
  EXPECT_EQ(counter.calls, 2) << "the object itself is called, no copy";
}

TEST(FunctionRef, passes_arguments_on_without_copies) {
  auto take = [](std::unique_ptr<int> p) { return *p; };
  FunctionRef<int(std::unique_ptr<int>)> f = take;
  EXPECT_EQ(f(std::make_unique<int>(5)), 5);
}

TEST(FunctionRef, is_copied_as_a_reference) {
  int calls = 0;
  auto count = [&] { ++calls; };
  FunctionRef<void()> a = count;
  FunctionRef<void()> b = a;
  a();
  b();
  EXPECT_EQ(calls, 2);
  static_assert(std::is_trivially_copyable_v<FunctionRef<void()>>);
}

}  // namespace
}  // namespace prenorm
