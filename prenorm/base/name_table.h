// The values of an enum by the names that flags and files spell, in a table of both.
//
//   inline constexpr NameTable<Order, 2> kOrders{{{"up", Order::kUp}, {"down", Order::kDown}}};
//   name_in(kOrders, order, "order", "a known order");
//   value_in(kOrders, "up", "order");
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {

template <typename T, std::size_t N>
using NameTable = std::array<std::pair<std::string_view, T>, N>;

// Throws ConfigError "WHAT: expected EXPECTED, found another number" for a value of no name.
template <typename T, std::size_t N>
std::string_view name_in(const NameTable<T, N>& table, T value, std::string_view what,
                         std::string_view expected) {
  for (const auto& [name, each] : table) {
    if (each == value) return name;
  }
  throw ConfigError(std::string(what) + ": expected " + std::string(expected) +
                    ", found another number");
}

// Throws ConfigError "WHAT: expected one of A, B, found 'NAME'".
template <typename T, std::size_t N>
T value_in(const NameTable<T, N>& table, std::string_view name, std::string_view what) {
  std::string known;
  for (const auto& [each, value] : table) {
    if (each == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  throw ConfigError(std::string(what) + ": expected one of " + known + ", found '" +
                    std::string(name) + "'");
}

}  // namespace prenorm
