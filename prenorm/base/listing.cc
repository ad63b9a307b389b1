#include "prenorm/base/listing.h"

namespace prenorm {

std::string listing(std::string_view kind, std::span<const std::string> names) {
  constexpr std::size_t kListed = 20;
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kListed; ++i) {
    out += "\n  " + std::string(kind) + ": " + names[i];
  }
  if (names.size() > kListed) {
    out += "\n  and " + std::to_string(names.size() - kListed) + " more " + std::string(kind);
  }
  return out;
}

}  // namespace prenorm
