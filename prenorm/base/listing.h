// The further lines of a message: names of one kind, the first twenty.
//
//   \n  missing: transformer.wte.weight
//   \n  and 3 more missing
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace prenorm {

std::string listing(std::string_view kind, std::span<const std::string> names);

}  // namespace prenorm
