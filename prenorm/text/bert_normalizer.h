// What BERT does to a text before WordPiece (Devlin et al. 2019, its "basic" tokenizer): drops
// control characters, sets Chinese characters apart, strips accents, lower-cases, and cuts the rest
// at blanks and around punctuation. Equal to Hugging Face's BertNormalizer and BertPreTokenizer,
// character by character.
//
//   for (const std::string& word : bert_words("Ça va?", {})) ...  // "ca", "va", "?"
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace prenorm {

struct BertNormalization {
  bool clean_text = true;            // drops controls, makes each white space a blank
  bool handle_chinese_chars = true;  // blanks around CJK ideographs
  bool strip_accents = true;         // of the canonical decomposition the nonspacing marks
  bool lowercase = true;             // each character alone: no final sigma
  bool operator==(const BertNormalization&) const = default;
};

// The text after all that is switched on. Bytes that are not UTF-8 count as U+FFFD, which
// clean_text drops.
std::u32string bert_normalize(std::string_view text, const BertNormalization& how);

// The words of a text: normalized, then split at white space, each punctuation character alone.
// None is empty. In UTF-8.
std::vector<std::string> bert_words(std::string_view text, const BertNormalization& how);

}  // namespace prenorm
