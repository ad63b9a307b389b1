#include "prenorm/base/utf8.h"

#include <array>

namespace prenorm {
namespace {

constexpr unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// What may follow a leading byte: the number of further bytes, the range of the first of them, and
// the code point's bits in the leading byte.
struct Lead {
  int more;
  unsigned char low, high;
  char32_t bits;
};

constexpr Lead lead_of(unsigned char b) {
  if (b < 0xC2) return {-1, 0, 0, 0};  // a continuation byte, or the lead of an overlong form
  if (b < 0xE0) return {1, 0x80, 0xBF, b & 0x1Fu};
  if (b < 0xF0) {
    // E0: no overlong forms; ED: no surrogates.
    const unsigned char low = b == 0xE0 ? 0xA0 : 0x80, high = b == 0xED ? 0x9F : 0xBF;
    return {2, low, high, b & 0x0Fu};
  }
  if (b < 0xF5) {
    // F0: no overlong forms; F4: nothing above U+10FFFF.
    const unsigned char low = b == 0xF0 ? 0x90 : 0x80, high = b == 0xF4 ? 0x8F : 0xBF;
    return {3, low, high, b & 0x07u};
  }
  return {-1, 0, 0, 0};
}

std::string hex(unsigned value, int digits) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (int i = digits - 1; i >= 0; --i) out += kDigits[value >> (4 * i) & 15];
  return out;
}

// Characters that change nothing on a screen, or change it in ways that hide what is there:
// controls, soft hyphen, zero-width and direction marks, line separators, the byte-order mark.
bool prints(char32_t c) {
  return c > 0x20 && !(c >= 0x7F && c <= 0xA0) && c != 0xAD && !(c >= 0x300 && c < 0x370) &&
         !(c >= 0x200B && c <= 0x200F) && !(c >= 0x2028 && c <= 0x202E) &&
         !(c >= 0x2060 && c <= 0x206F) && c != 0xFEFF && !(c >= 0xFFF0 && c < 0xFFFD) &&
         !(c >= 0xE000 && c < 0xF900) && c < 0xE0000;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) return {first, 1, true, false};
  const Lead lead = lead_of(first);
  if (lead.more < 0) return {kReplacementCharacter, 1, false, false};
  char32_t c = lead.bits;
  for (int i = 1; i <= lead.more; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at == text.size()) return {kReplacementCharacter, at, false, true};
    const unsigned char b = byte_at(text, at);
    const unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
    if (b < low || b > high) return {kReplacementCharacter, at, false, false};
    c = c << 6 | (b & 0x3Fu);
  }
  return {c, static_cast<std::size_t>(lead.more) + 1, true, false};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (byte_at(text, at) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.valid) return at;
    at += step.length;
  }
  return std::nullopt;
}

std::size_t incomplete_utf8_suffix(std::string_view text) {
  for (std::size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    const unsigned char b = byte_at(text, text.size() - n);
    if (b < 0x80) return 0;
    if (b >= 0xC0) return utf8_step(text.substr(text.size() - n)).incomplete ? n : 0;
  }
  return 0;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out += static_cast<char>(static_cast<unsigned>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.valid) {
      out.append(text.substr(0, step.length));
    } else {
      append_utf8(out, kReplacementCharacter);
    }
    text.remove_prefix(step.length);
  }
  return out;
}

std::string describe_character(char32_t c) {
  const std::string number = "U+" + hex(static_cast<unsigned>(c), c > 0xFFFFF  ? 6
                                                                  : c > 0xFFFF ? 5
                                                                               : 4);
  if (!prints(c)) return number;
  std::string out = "'";
  append_utf8(out, c);
  return out + "' (" + number + ")";
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    const bool plain = step.valid && (step.code_point == ' ' || prints(step.code_point));
    std::string piece;
    if (plain) {
      piece = text.substr(0, step.length);
    } else {
      for (std::size_t i = 0; i < step.length; ++i) piece += "\\x" + hex(byte_at(text, i), 2);
    }
    if (out.size() + piece.size() > limit) return out + "...";
    out += piece;
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace prenorm
