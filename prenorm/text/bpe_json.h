// A byte-level BPE as JSON: Hugging Face's tokenizer.json and GPT-2's vocab.json. Private, as it
// shows the JSON library; bpe_files.h has the files themselves.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/base/json.h"
#include "prenorm/text/bpe_model.h"

namespace prenorm {

// Whether a tokenizer.json describes a BPE behind GPT-2's pattern, sound or not.
bool describes_bpe(const Json& tokenizer);

// Reads and validates one. Refuses, with what it is, everything that would make Hugging Face's
// tokenizers encode otherwise than a BpeTokenizer: normalizers, other patterns, dropout, …. `name`
// is the file's. Throws FormatError.
BpeModel bpe_model_of(const Json& tokenizer, std::string_view name);

// The tokenizer.json of a model.
Json tokenizer_json_of(const BpeModel& model);

// The tokens of an object {TOKEN: ID, …} by id. The ids are below the number of tokens plus
// `further`; a token is empty where nobody has its id. Throws FormatError.
std::vector<std::string> read_vocabulary(const Json& vocabulary, std::size_t further,
                                         std::string_view name);

// "LEFT RIGHT". `place` is the line or the merge, for the FormatError.
MergeText read_merge(std::string_view text, std::string_view place, std::string_view name);

}  // namespace prenorm
