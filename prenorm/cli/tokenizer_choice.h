// The tokenizer that --tokenizer names: byte, char, gpt2:DIR, or DIR.
//
//   std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(name);
//   if (!tokenizer) tokenizer = ...;  // char: of the text's characters
#pragma once
#include <memory>
#include <string>

#include "prenorm/text/tokenizer.h"

namespace prenorm::cli {

// What the flag takes, for its help and its errors.
inline constexpr const char* kTokenizerNames = "byte, char, gpt2:DIR or a folder with a tokenizer";

// "gpt2:DIR" is the byte-level BPE in that folder (tokenizer.json, or vocab.json and merges.txt),
// another folder's name whatever tokenizer it holds. Null for "char", which is made from the text.
// Throws ConfigError for a name that is none of these, IoError and FormatError for what is wrong
// with the folder.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name);

}  // namespace prenorm::cli
