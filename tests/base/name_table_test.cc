#include "prenorm/base/name_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prenorm {
namespace {

using testing::StrEq;
using testing::ThrowsMessage;

enum class Order { kUp, kDown, kNeither };
constexpr NameTable<Order, 2> kOrders{{{"up", Order::kUp}, {"down", Order::kDown}}};

TEST(NameTable, names_and_values_are_each_others) {
  for (const auto& [name, value] : kOrders) {
    EXPECT_EQ(name_in(kOrders, value, "order", "a known order"), name);
    EXPECT_EQ(value_in(kOrders, name, "order"), value);
  }
}

TEST(NameTable, what_is_not_there_is_an_error_with_what_is) {
  EXPECT_THAT([] { value_in(kOrders, "left", "order"); },
              ThrowsMessage<ConfigError>(StrEq("order: expected one of up, down, found 'left'")));
  EXPECT_THAT(
      [] { name_in(kOrders, Order::kNeither, "order", "a known order"); },
      ThrowsMessage<ConfigError>(StrEq("order: expected a known order, found another number")));
}

}  // namespace
}  // namespace prenorm
