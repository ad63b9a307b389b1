#include "prenorm/base/listing.h"

#include <gtest/gtest.h>

#include <vector>

namespace prenorm {
namespace {

TEST(Listing, gives_each_name_a_line) {
  EXPECT_EQ(listing("missing", {}), "");
  const std::vector<std::string> names = {"a", "b"};
  EXPECT_EQ(listing("missing", names), "\n  missing: a\n  missing: b");
}

TEST(Listing, counts_those_after_the_twentieth) {
  const std::string text = listing("unexpected", std::vector<std::string>(23, "x"));
  EXPECT_TRUE(text.ends_with("\n  unexpected: x\n  and 3 more unexpected")) << text;
}

}  // namespace
}  // namespace prenorm
