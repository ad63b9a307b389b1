// A byte-level BPE small enough to follow by hand, for the tokenizer's tests.
#pragma once
#include <string>
#include <vector>

#include "prenorm/text/bpe_model.h"
#include "prenorm/text/byte_level.h"

namespace prenorm {

// Ids 0 to 255 are the bytes; 256 "th", 257 "the", 258 " the", 259 "aa", 260 "aaaa", 261 " a",
// 262 "\n\n", 263 "é", 264 "<|endoftext|>".
inline BpeModel small_bpe() {
  BpeModel model;
  for (int byte = 0; byte < 256; ++byte) {
    model.tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
  }
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"t", "h"},   {"th", "e"}, {" ", "the"}, {"a", "a"},
      {"aa", "aa"}, {" ", "a"},  {"\n", "\n"}, {"\xC3", "\xA9"}};
  std::vector<std::string> spelled;
  for (const auto& [left, right] : pairs) {
    spelled.push_back(byte_level_spelling(left));
    spelled.push_back(byte_level_spelling(right));
    model.tokens.push_back(byte_level_spelling(left + right));
  }
  std::vector<MergeText> merges;
  for (std::size_t i = 0; i < spelled.size(); i += 2)
    merges.push_back({spelled[i], spelled[i + 1]});
  model.merges = resolve_merges(model.tokens, merges, "merges");
  model.tokens.emplace_back("<|endoftext|>");
  model.added_tokens.push_back({"<|endoftext|>", 264});
  return model;
}

}  // namespace prenorm
