#include "prenorm/text/gpt2_pattern.h"

#include <array>

#include "prenorm/base/utf8.h"
#include "prenorm/text/unicode_classes.h"

namespace prenorm {
namespace {

constexpr std::array<CharacterClass, 128> make_ascii_classes() {
  std::array<CharacterClass, 128> classes{};
  for (std::size_t c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[c] = letter                 ? CharacterClass::kLetter
                 : c >= '0' && c <= '9' ? CharacterClass::kNumber
                 : space                ? CharacterClass::kSpace
                                        : CharacterClass::kOther;
  }
  return classes;
}

constexpr std::array<CharacterClass, 128> kAsciiClasses = make_ascii_classes();

// A character and the bytes that it takes.
struct Step {
  CharacterClass what;
  std::size_t length;
};

Step step_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) return {kAsciiClasses[byte], 1};
  const Utf8Step step = utf8_step(text.substr(at));
  return {step.valid ? character_class(step.code_point) : CharacterClass::kOther, step.length};
}

// Where the run of a class ends that goes on at `at`.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass what) {
  while (at < text.size()) {
    const Step step = step_at(text, at);
    if (step.what != what) break;
    at += step.length;
  }
  return at;
}

// Bytes of 's, 't, 're, 've, 'm, 'll or 'd at the beginning, or 0. Requires: text begins with '.
std::size_t contraction_length(std::string_view text) {
  const std::string_view two = text.substr(1, 2);
  if (two == "re" || two == "ve" || two == "ll") return 3;
  if (!two.empty() && std::string_view("stmd").find(two[0]) != std::string_view::npos) return 2;
  return 0;
}

// \s+(?!\S)|\s+: white space up to the end of the text, or up to the last of it, which begins a
// piece of its own or, as a blank, the next one.
std::size_t space_length(std::string_view text) {
  std::size_t at = 0, last = 0;
  while (at < text.size()) {
    const Step step = step_at(text, at);
    if (step.what != CharacterClass::kSpace) return last > 0 ? last : at;
    last = at;
    at += step.length;
  }
  return at;
}

}  // namespace

std::size_t gpt2_piece_length(std::string_view text) {
  if (text[0] == '\'') {
    if (const std::size_t length = contraction_length(text); length > 0) return length;
  }
  std::size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Step first = step_at(text, begin);
  if (first.what == CharacterClass::kSpace) return space_length(text);
  return end_of_run(text, begin + first.length, first.what);
}

}  // namespace prenorm
