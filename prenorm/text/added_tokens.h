// Finds a tokenizer's added tokens in a text, as Hugging Face's tokenizers do: the leftmost, of
// those that begin at one place the longest, without overlaps; those that are normalized in what
// the others have left.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "prenorm/text/bpe_model.h"

namespace prenorm {

class AddedTokens {
 public:
  // A stretch of the text: an added token, or what lies between them.
  struct Part {
    std::string_view text;
    TokenId id = -1;  // -1: no added token
  };

  AddedTokens() = default;
  explicit AddedTokens(std::span<const AddedToken> tokens);

  // The text cut into parts, none of them empty. Special tokens are parts of the text around them
  // unless `special`.
  std::vector<Part> split(std::string_view text, bool special) const;
  bool empty() const { return first_pass_.tokens.empty() && second_pass_.tokens.empty(); }

 private:
  struct Pass {
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    std::vector<AddedToken> tokens;        // in the order of their bytes
    std::vector<std::size_t> shorter;      // the longest other token that begins each, or kNone
    std::array<std::size_t, 257> begin{};  // of the tokens with this first byte
    void build();
    const AddedToken* at(std::string_view text) const;  // the longest that begins the text
    void split(std::string_view text, bool special, std::vector<Part>& parts) const;
  };
  Pass first_pass_, second_pass_;
};

}  // namespace prenorm
