// tokenizer.json and tokenizer_config.json of the tokenizers whose tokens are single symbols: a BPE
// model without merges, which splits text into its symbols and joins nothing.
#pragma once
#include <filesystem>
#include <span>
#include <string_view>

namespace prenorm {

// "byte": the symbols are kByteLevelAlphabet's, each standing for a byte. "char": they are the
// characters themselves. symbols[id] is the token of id. Throws IoError.
void save_symbol_tokenizer(const std::filesystem::path& folder, std::string_view kind,
                           std::span<const char32_t> symbols);

}  // namespace prenorm
