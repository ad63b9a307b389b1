#include "prenorm/kernels/isa.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

TEST(Isa, names_are_the_documented_ones) {
  EXPECT_EQ(isa_name(Isa::kAvx2), "avx2");
  EXPECT_EQ(isa_name(Isa::kAvx512), "avx512");
  EXPECT_EQ(isa_name(Isa::kNeon), "neon");
}

TEST(Isa, every_supported_one_is_found_by_its_name) {
  ASSERT_FALSE(supported_isas().empty());
  std::set<Isa> distinct;
  for (const Isa isa : supported_isas()) {
    EXPECT_EQ(isa_from_name(isa_name(isa)), isa);
    distinct.insert(isa);
  }
  EXPECT_EQ(distinct.size(), supported_isas().size());
}

TEST(Isa, auto_is_the_fastest) {
  EXPECT_EQ(isa_from_name("auto"), supported_isas().front());
  EXPECT_EQ(best_isa(), supported_isas().front());
}

TEST(Isa, an_unknown_name_is_refused_with_those_that_are_here) {
  for (const char* name : {"", "AVX2", "sse4"}) {
    try {
      isa_from_name(name);
      FAIL() << name;
    } catch (const UnsupportedCpu& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("'" + std::string(name) + "'"), std::string::npos) << what;
      EXPECT_NE(what.find(isa_name(best_isa())), std::string::npos) << what;
    }
  }
}

}  // namespace
}  // namespace prenorm
