// What GPT-2's pattern asks of a character, by Unicode 16.0.0: the version that tiktoken 0.14 and
// tokenizers 0.23 use.
#pragma once

namespace prenorm {

enum class CharacterClass : unsigned char {
  kOther,   // also what is unassigned
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s, the property White_Space; U+180E and U+200B are none
};

CharacterClass character_class(char32_t code_point);

}  // namespace prenorm
