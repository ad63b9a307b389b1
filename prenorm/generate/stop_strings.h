// Ends a text at the first of some strings, also where they are spread over several pieces.
//
//   StopStrings stop({"\n\n", "User:"});
//   while (...) { out << stop.feed(piece); if (stop.found()) break; }
//   if (!stop.found()) out << stop.finish();
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace prenorm {

class StopStrings {
 public:
  // Empty strings are left out: they would end every text at its start.
  explicit StopStrings(std::vector<std::string> strings);

  // The text that is certain to come before any of the strings. Empty once one was found.
  std::string feed(std::string_view piece);
  // What was held back because it began like one of the strings.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> strings_;
  std::string pending_;
  bool found_ = false;
};

}  // namespace prenorm
