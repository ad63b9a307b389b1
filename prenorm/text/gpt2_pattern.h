// GPT-2's pre-tokenizer: cuts text into the pieces within which its BPE merges. The pieces are the
// matches, one after another, of
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// (Radford et al. 2019, encoder.py), which leave no gap. By hand instead of with a regular
// expression: linear time, no recursion, and bytes that are not UTF-8 count as punctuation.
//
//   for (std::size_t at = 0; at < text.size(); at += gpt2_piece_length(text.substr(at))) ...
#pragma once
#include <cstddef>
#include <string_view>

namespace prenorm {

// Bytes of the first piece. Requires: text is not empty.
std::size_t gpt2_piece_length(std::string_view text);

}  // namespace prenorm
