// The files of a WordPiece tokenizer: Hugging Face's tokenizer.json and tokenizer_config.json, and
// BERT's vocab.txt. Private, as it shows the JSON library; wordpiece_tokenizer.h opens a folder.
#pragma once
#include <string_view>

#include "prenorm/base/json.h"
#include "prenorm/text/wordpiece_tokenizer.h"

namespace prenorm {

// Whether a tokenizer.json describes one, sound or not.
bool describes_wordpiece(const Json& tokenizer);

// Reads one. Truncation and padding are the caller's and not read. Refuses, with what it is, what
// would make Hugging Face's tokenizers encode otherwise. `name` is the file's. Throws FormatError.
WordPieceModel wordpiece_model_of(const Json& tokenizer, std::string_view name);

// The flags and special tokens of tokenizer_config.json; no vocabulary. Throws FormatError.
WordPieceModel wordpiece_options_of(const Json& config, std::string_view name);

// Adds the tokens of vocab.txt, one a line, and those of them that are special. Throws FormatError.
void add_wordpiece_vocabulary(std::string_view text, WordPieceModel& model, std::string_view name);

// What the two JSON files hold.
Json wordpiece_json_of(const WordPieceModel& model);
Json wordpiece_config_of(const WordPieceModel& model);

}  // namespace prenorm
