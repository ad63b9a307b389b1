// The files of a byte-level BPE: Hugging Face's tokenizer.json; GPT-2's vocab.json with merges.txt;
// OpenAI's encoder.json with vocab.bpe, which are those two under other names.
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

#include "prenorm/text/bpe_model.h"

namespace prenorm {

// Reads what the folder has, the first of the three, and validates it. Strict: tokens, ids and
// merges that do not fit together are refused, and so is a tokenizer.json by which Hugging Face
// would encode otherwise than a BpeTokenizer. Throws IoError; FormatError naming the file.
BpeModel read_bpe_model(const std::filesystem::path& folder);

// The same from two files. In vocab.json ids are 0 to n − 1, each once, and the token
// <|endoftext|>, where there is one, is special; merges.txt has, after an optional line
// "#version…", a line "LEFT RIGHT" for each merge.
BpeModel read_bpe_model(const std::filesystem::path& vocab_file,
                        const std::filesystem::path& merges_file);

// The lines of a merges.txt, as views into `text`; `name` is the file's. Throws FormatError.
std::vector<MergeText> parse_merges(std::string_view text, std::string_view name);

// Writes tokenizer.json and tokenizer_config.json durably. Throws IoError.
void save_bpe_model(const std::filesystem::path& folder, const BpeModel& model);

}  // namespace prenorm
