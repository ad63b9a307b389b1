// The integer that counts elements, rows and tokens everywhere.
#pragma once
#include <cstdint>

namespace prenorm {

using Index = std::int64_t;
using TokenId = std::int32_t;

constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }
constexpr Index round_up(Index a, Index b) { return ceil_div(a, b) * b; }

}  // namespace prenorm
