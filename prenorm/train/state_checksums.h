// What a saved state knows of the files that it consists of, to find damage in them: the size of
// each, and a checksum of each tensor, of the header before the tensors, and of files without
// tensors. In training_state.json, which carries a checksum of itself as its last key:
//
//   "files": {"config.json": {"bytes": 612, "crc32": "9ae0daaf"},
//             "model.safetensors": {"bytes": 98304, "header": "1f2e3d4c",
//                                   "tensors": [["lm_head.weight", 16384, "cbf43926"], …]}},
//   "crc32": "89abcdef"
//
// For state.cc and run_states.cc alone.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "prenorm/base/json.h"

namespace prenorm {

// "files" of what is in the folder, by the names that models, tokenizers and states have.
// Throws IoError, FormatError.
Json checksums_of_files(const std::filesystem::path& folder);

// Throws FormatError naming the first file, and in it the tensor, that is not as it was saved;
// IoError for one that cannot be read.
void check_files(const std::filesystem::path& folder, const Json& files);

// The JSON as text, with the checksum of the text before that as its last key.
std::string with_own_checksum(Json object);
// Throws FormatError where the text does not end in its own checksum.
void check_own_checksum(std::string_view text, const std::string& name);

}  // namespace prenorm
