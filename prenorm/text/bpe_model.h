// A byte-level BPE (byte-pair encoding, Sennrich et al. 2016; over bytes, Radford et al. 2019) as
// plain data: what its files hold and a BpeTokenizer is made of.
//
//   BpeModel model;
//   model.tokens = {"a", "b", "ab"};  // by id, spelled as in vocab.json
//   model.merges = {{0, 1, 2}};       // "a" and "b" become "ab"
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/base/index.h"

namespace prenorm {

// Two neighbouring tokens that become one.
struct BpeMerge {
  TokenId left = 0, right = 0, result = 0;
  bool operator==(const BpeMerge&) const = default;
};

// A token that stands for a text of its own, beside the merges: <|endoftext|>.
struct AddedToken {
  std::string content;  // the text, in bytes as they are
  TokenId id = 0;
  bool special = true;      // plain text where special tokens are not asked for
  bool normalized = false;  // looked for in what those that are not normalized have left
  bool operator==(const AddedToken&) const = default;
};

struct BpeModel {
  // Every token by its id, spelled with kByteLevelAlphabet. Empty: the id of an added token that is
  // no token of the vocabulary.
  std::vector<std::string> tokens;
  std::vector<BpeMerge> merges;  // in the order in which they apply
  std::vector<AddedToken> added_tokens;

  // The vocabulary's token of each merge and added token is there, each text has one id, each id
  // one text. Throws FormatError `NAME: expected ..., found ...`.
  void validate(std::string_view name) const;
};

// A merge as its two tokens' spellings.
struct MergeText {
  std::string_view left, right;
};

// The merges by id. Throws FormatError naming `name` and the merge (counted from 1) where a token
// of it, or the token that it makes, is not in the vocabulary.
std::vector<BpeMerge> resolve_merges(std::span<const std::string> tokens,
                                     std::span<const MergeText> merges, std::string_view name);

}  // namespace prenorm
