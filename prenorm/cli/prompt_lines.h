// Prompts from a file: one JSON object a line, {"text": "…"} or {"ids": [1, 2, …]}.
//
//   for (const Prompt& prompt : read_prompts("prompts.jsonl", model, tokenizer)) ... prompt.ids
//
// Blank lines are passed over, and so are other members of the objects.
#pragma once
#include <string>
#include <vector>

#include "prenorm/model/gpt_config.h"
#include "prenorm/text/tokenizer.h"

namespace prenorm::cli {

struct Prompt {
  std::vector<TokenId> ids;
  std::string place;  // "prompts.jsonl, line 3"
};

// Reads and checks all of them; "-" is standard input. `tokenizer` may be null: then every prompt
// must be ids. Throws IoError; FormatError and DataError naming file and line: no JSON, neither or
// both of text and ids, an empty prompt, an id outside the model's vocabulary.
std::vector<Prompt> read_prompts(const std::string& path, const GptConfig& model,
                                 const Tokenizer* tokenizer);

// The same of the bytes; `name` is what errors call the file.
std::vector<Prompt> parse_prompts(std::string_view bytes, const std::string& name,
                                  const GptConfig& model, const Tokenizer* tokenizer);

}  // namespace prenorm::cli
