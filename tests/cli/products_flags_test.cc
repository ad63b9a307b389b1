#include "prenorm/cli/products_flags.h"

#include <gtest/gtest.h>

#include <string>

namespace prenorm::cli {
namespace {

// The flags after one of them was given.
struct Given {
  Given(const std::string& name, const std::string& value) {
    flags.declare(table, "", "");
    if (name.empty()) return;
    EXPECT_TRUE(table.find(name)->assign({value}));
  }
  ProductsFlags flags;
  OptionTable table;
};

TEST(ProductsFlags, a_dtype_has_two_spellings) {
  EXPECT_TRUE(Given("", "").flags.float32());
  for (const char* name : {"f32", "float32"}) EXPECT_TRUE(Given("dtype", name).flags.float32());
  for (const char* name : {"bf16", "bfloat16"}) EXPECT_FALSE(Given("dtype", name).flags.float32());
}

TEST(ProductsFlags, an_order_is_what_was_asked_for) {
  EXPECT_FALSE(Given("", "").flags.order());
  EXPECT_FALSE(Given("bf16-sums", "auto").flags.order());
  EXPECT_EQ(Given("bf16-sums", "dot").flags.order(), Products::kBfloat16Dot);
  EXPECT_EQ(Given("bf16-sums", "tile").flags.order(), Products::kBfloat16Tile);
}

}  // namespace
}  // namespace prenorm::cli
