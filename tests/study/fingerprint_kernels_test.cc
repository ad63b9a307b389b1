#include "prenorm/study/fingerprint_kernels.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace prenorm {
namespace {

TEST(BitHash, is_FNV_1a_of_the_bytes) {
  BitHash hash;
  EXPECT_EQ(hash.value(), 0xcbf29ce484222325u);
  const std::string text = "foobar";  // from the algorithm's published test vectors
  hash.add(std::span<const char>(text));
  EXPECT_EQ(hash.value(), 0x85944171f73967e8u);
}

TEST(BitHash, sees_every_bit_and_the_order) {
  const auto of = [](std::vector<float> x) {
    BitHash hash;
    hash.add(std::span<const float>(x));
    return hash.value();
  };
  EXPECT_NE(of({1.0f, 2.0f}), of({2.0f, 1.0f}));
  EXPECT_NE(of({0.0f}), of({-0.0f}));
  EXPECT_NE(of({1.0f}), of({1.0f + 0x1p-23f}));
}

TEST(KernelFingerprint, has_a_name_of_its_own_and_a_value_that_repeats) {
  const Runtime run;
  std::set<std::string_view> names;
  std::map<std::string_view, std::uint64_t> hashes;
  for (const KernelFingerprint& kernel : kernel_fingerprints()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    hashes[kernel.name] = kernel.compute(run);
    EXPECT_EQ(kernel.compute(run), hashes[kernel.name]) << kernel.name;
  }
  // The packed product is the plain one in another order of memory, the masks are not the rule.
  EXPECT_EQ(hashes["matmul"], hashes["matmul, packed"]);
  EXPECT_NE(hashes["matmul"], hashes["matmul, transposed"]);
  EXPECT_NE(hashes["attention"], hashes["masked attention"]);
}

}  // namespace
}  // namespace prenorm
