#include "prenorm/text/added_tokens.h"

#include <algorithm>

namespace prenorm {
namespace {

std::size_t first_byte(std::string_view text) { return static_cast<unsigned char>(text.front()); }

}  // namespace

AddedTokens::AddedTokens(std::span<const AddedToken> tokens) {
  for (const AddedToken& token : tokens) {
    (token.normalized ? second_pass_ : first_pass_).tokens.push_back(token);
  }
  first_pass_.build();
  second_pass_.build();
}

void AddedTokens::Pass::build() {
  std::ranges::stable_sort(tokens, {}, &AddedToken::content);
  std::vector<std::size_t> open;  // tokens that begin each other and the present one
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    while (!open.empty() && !tokens[i].content.starts_with(tokens[open.back()].content)) {
      open.pop_back();
    }
    shorter.push_back(open.empty() ? kNone : open.back());
    open.push_back(i);
  }
  for (const AddedToken& token : tokens) ++begin[first_byte(token.content) + 1];
  for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
}

const AddedToken* AddedTokens::Pass::at(std::string_view text) const {
  // Of the tokens that come before the text or are it, the last one begins with every token that
  // begins the text. A file may hold thousands with the same first byte.
  const std::size_t first = first_byte(text);
  const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(begin[first]);
  const auto to = tokens.begin() + static_cast<std::ptrdiff_t>(begin[first + 1]);
  const auto after = std::upper_bound(
      from, to, text,
      [](std::string_view t, const AddedToken& token) { return t < token.content; });
  if (after == from) return nullptr;
  std::size_t i = static_cast<std::size_t>(after - tokens.begin()) - 1;
  while (i != kNone && !text.starts_with(tokens[i].content)) i = shorter[i];
  return i == kNone ? nullptr : &tokens[i];
}

void AddedTokens::Pass::split(std::string_view text, bool special, std::vector<Part>& parts) const {
  std::size_t from = 0;
  for (std::size_t i = 0; i < text.size();) {
    const AddedToken* token = at(text.substr(i));
    if (token == nullptr) {
      ++i;
      continue;
    }
    // A special token that is not asked for still hides what begins inside it.
    if (special || !token->special) {
      if (i > from) parts.push_back({text.substr(from, i - from), -1});
      parts.push_back({text.substr(i, token->content.size()), token->id});
      from = i + token->content.size();
    }
    i += token->content.size();
  }
  if (from < text.size()) parts.push_back({text.substr(from), -1});
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool special) const {
  std::vector<Part> parts;
  if (text.empty()) return parts;
  if (first_pass_.tokens.empty() && second_pass_.tokens.empty()) return {{text, -1}};
  first_pass_.split(text, special, parts);
  if (second_pass_.tokens.empty()) return parts;
  std::vector<Part> finer;
  for (const Part& part : parts) {
    if (part.id >= 0) {
      finer.push_back(part);
    } else {
      second_pass_.split(part.text, special, finer);
    }
  }
  return finer;
}

}  // namespace prenorm
