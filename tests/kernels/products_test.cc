#include "prenorm/kernels/products.h"

#include <gtest/gtest.h>

#include <string>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

TEST(Products, names_read_back_and_an_unknown_one_is_an_error_that_lists_them) {
  for (const auto& [name, products] : kProducts) {
    EXPECT_EQ(to_string(products), name);
    EXPECT_EQ(products_from_string(name), products);
  }
  try {
    products_from_string("fp16");
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()),
              "dtype: expected one of f32, bf16-dot, bf16-tile, found 'fp16'");
  }
}

TEST(Products, every_order_of_sums_has_a_unit_on_every_instruction_set) {
  for (const Isa isa : supported_isas()) {
    EXPECT_TRUE(has_bf16_unit(isa, Bf16Unit::kFusedMultiplyAdd));
    for (const Products products : {Products::kBfloat16Dot, Products::kBfloat16Tile}) {
      const Bf16Unit unit = bf16_unit(isa, products);
      EXPECT_TRUE(has_bf16_unit(isa, unit));
      EXPECT_NE(unit,
                products == Products::kBfloat16Dot ? Bf16Unit::kMatrix : Bf16Unit::kDotProduct);
      EXPECT_TRUE(isa == Isa::kAvx512 || unit == Bf16Unit::kFusedMultiplyAdd);
    }
    const bool matrix = has_bf16_unit(isa, Bf16Unit::kMatrix);
    EXPECT_EQ(fastest_bf16_products(isa),
              matrix ? Products::kBfloat16Tile : Products::kBfloat16Dot);
  }
}

TEST(Products, units_have_names) {
  EXPECT_EQ(bf16_unit_name(Bf16Unit::kMatrix), "AMX");
  EXPECT_EQ(bf16_unit_name(Bf16Unit::kDotProduct), "AVX512_BF16");
  EXPECT_EQ(bf16_unit_name(Bf16Unit::kFusedMultiplyAdd), "fused multiply-adds");
}

}  // namespace
}  // namespace prenorm
