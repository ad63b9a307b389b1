#include "prenorm/generate/stop_strings.h"

#include <algorithm>
#include <utility>

namespace prenorm {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  std::erase(strings_, "");
}

std::string StopStrings::feed(std::string_view piece) {
  if (found_) return "";
  pending_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& stop : strings_) first = std::min(first, pending_.find(stop));
  if (first != std::string::npos) {
    found_ = true;
    return std::exchange(pending_, "").substr(0, first);
  }
  // Hold back the longest end of the text that is the beginning of a stop string.
  std::size_t held = 0;
  for (const std::string& stop : strings_) {
    for (std::size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n) {
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, n))) held = n;
    }
  }
  std::string certain = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, certain.size());
  return certain;
}

std::string StopStrings::finish() { return found_ ? "" : std::exchange(pending_, ""); }

}  // namespace prenorm
