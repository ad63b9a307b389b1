#include "prenorm/text/unicode_classes.h"

#include <cstddef>
#include <iterator>

#include "prenorm/text/unicode_ranges-inl.h"

namespace prenorm {
namespace {

// Nothing above is a letter or a number.
constexpr char32_t kEnd = 0x32400;

constexpr CodePointRange kSpaceRanges[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

// Two bits a code point, four code points a byte.
struct Table {
  unsigned char packed[kEnd / 4] = {};

  template <std::size_t N>
  constexpr void fill(const CodePointRange (&ranges)[N], CharacterClass what) {
    const auto bits = static_cast<unsigned>(what);
    for (const CodePointRange& range : ranges) {
      char32_t c = range.first;
      while (c <= range.last) {
        if (c % 4 == 0 && range.last - c >= 3) {
          packed[c / 4] = static_cast<unsigned char>(bits * 0x55u);
          c += 4;
        } else {
          packed[c / 4] = static_cast<unsigned char>(packed[c / 4] | bits << (c % 4 * 2));
          ++c;
        }
      }
    }
  }

  constexpr Table() {
    fill(kLetterRanges, CharacterClass::kLetter);
    fill(kNumberRanges, CharacterClass::kNumber);
    fill(kSpaceRanges, CharacterClass::kSpace);
  }
};

static_assert(std::end(kLetterRanges)[-1].last < kEnd && std::end(kNumberRanges)[-1].last < kEnd);
constexpr Table kTable;

}  // namespace

CharacterClass character_class(char32_t c) {
  if (c >= kEnd) return CharacterClass::kOther;
  return static_cast<CharacterClass>(kTable.packed[c / 4] >> (c % 4 * 2) & 3u);
}

}  // namespace prenorm
