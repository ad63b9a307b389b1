#include "prenorm/cli/tokenizer_choice.h"

#include <filesystem>
#include <string_view>

#include "prenorm/base/error.h"
#include "prenorm/cli/message.h"
#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/byte_tokenizer.h"

namespace prenorm::cli {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  constexpr std::string_view kGpt2 = "gpt2:";
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  if (name == "char") return nullptr;
  if (name.starts_with(kGpt2)) return load_bpe_tokenizer(name.substr(kGpt2.size()));
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored)) return load_tokenizer(name);
  throw ConfigError("--tokenizer: expected " + std::string(kTokenizerNames) + ", found " +
                    (name.empty() ? "none" : in_quotes(name)));
}

}  // namespace prenorm::cli
