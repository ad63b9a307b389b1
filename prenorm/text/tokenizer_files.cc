#include "prenorm/text/tokenizer_files.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/text/bpe_json.h"
#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/byte_level.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/text/char_tokenizer.h"
#include "prenorm/text/json_reader.h"
#include "prenorm/text/wordpiece_json.h"

namespace prenorm {
namespace {

// transformers keeps this key and makes nothing of it.
constexpr const char* kKindKey = "prenorm_tokenizer";

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

Json model_of(std::span<const char32_t> symbols) {
  Json::object_t vocab;
  std::vector<Json::object_t::value_type, Json::object_t::allocator_type>& members = vocab;
  for (std::size_t id = 0; id < symbols.size(); ++id) {
    std::string token;
    append_utf8(token, symbols[id]);
    members.emplace_back(std::move(token), id);  // symbols are distinct: no look-up
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", Json::array()}};
}

// Reads a tokenizer.json of the kinds above; everything else is refused with what it is.
class Reader : JsonReader {
 public:
  using JsonReader::JsonReader;
  using JsonReader::refuse;

  std::unique_ptr<Tokenizer> read(const Json& json) const {
    const Json& model = member(json, "model");
    if (const Json& type = member(model, "type"); type != "BPE") {
      refuse("a byte, char or BPE tokenizer", "a model of type " + shown(type));
    }
    const Json& merges = member(model, "merges");
    if (!merges.is_array() || !merges.empty()) {
      refuse("a byte or char tokenizer, which has no merges, or GPT-2's pre_tokenizer",
             std::to_string(merges.size()) + " merges");
    }
    for (const char* key : {"normalizer", "added_tokens"}) {
      if (const Json& value = member(json, key); !value.empty()) {
        refuse("a byte or char tokenizer without " + std::string(key), shown(value));
      }
    }
    const std::vector<char32_t> symbols = symbols_of(member(model, "vocab"));
    const std::string pre = type_of(json, "pre_tokenizer"), decoder = type_of(json, "decoder");
    if (pre == "ByteLevel" && decoder == "ByteLevel") {
      check_byte_level(json.at("pre_tokenizer"), symbols);
      return std::make_unique<ByteTokenizer>();
    }
    if (pre.empty() && decoder == "Fuse") return std::make_unique<CharTokenizer>(symbols);
    refuse("a byte, char or BPE tokenizer",
           "pre_tokenizer '" + printable(pre) + "' with decoder '" + printable(decoder) + "'");
  }

 private:
  // The single character of each token, by id.
  std::vector<char32_t> symbols_of(const Json& vocab) const {
    if (!vocab.is_object() || vocab.empty()) refuse("a vocabulary", shown(vocab));
    std::vector<std::optional<char32_t>> by_id(vocab.size());
    for (const auto& [token, id] : vocab.items()) {
      const Utf8Step step = token.empty() ? Utf8Step{} : utf8_step(token);
      if (!step.valid || step.length != token.size()) {
        refuse("tokens of one character", "'" + printable(token) + "'");
      }
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= by_id.size() ||
          by_id[id.get<std::size_t>()].has_value()) {
        refuse("ids 0 to " + std::to_string(by_id.size() - 1) + ", each once",
               shown(id) + " for '" + printable(token) + "'");
      }
      by_id[id.get<std::size_t>()] = step.code_point;
    }
    std::vector<char32_t> symbols;
    for (const auto& symbol : by_id) symbols.push_back(*symbol);
    return symbols;
  }

  void check_byte_level(const Json& pre, std::span<const char32_t> symbols) const {
    if (!std::ranges::equal(symbols, kByteLevelAlphabet)) {
      refuse("the 256 bytes as vocabulary, ids in the order of the bytes", "another vocabulary");
    }
    for (const char* key : {"add_prefix_space", "use_regex"}) {
      // Both are true where they are absent.
      if (member(pre, key) != false) refuse(std::string(key) + " false in pre_tokenizer", "true");
    }
  }
};

// What tokenizer_config.json says of the kind; nothing where it says nothing or is not there.
std::optional<std::string> configured_kind(const std::filesystem::path& file) {
  if (!file_exists(file)) return std::nullopt;
  const Json json = parse_json(read_regular_file(file), file.string());
  if (!json.is_object())
    throw FormatError(file.string() + ": expected an object, found another value");
  const auto it = json.find(kKindKey);
  if (it == json.end() || !it->is_string()) return std::nullopt;
  return it->get<std::string>();
}

}  // namespace

void save_symbol_tokenizer(const std::filesystem::path& folder, std::string_view kind,
                           std::span<const char32_t> symbols) {
  const bool bytes = kind == "byte";
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", Json::array()},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", bytes ? byte_level() : Json()},
                          {"post_processor", nullptr},
                          {"decoder", bytes ? byte_level() : Json::object({{"type", "Fuse"}})},
                          {"model", model_of(symbols)}};
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"clean_up_tokenization_spaces", false},
                       {"bos_token", nullptr},
                       {"eos_token", nullptr},
                       {"unk_token", nullptr},
                       {kKindKey, kind}};
  write_file_durably(folder / "tokenizer.json", dump_json(tokenizer));
  write_file_durably(folder / "tokenizer_config.json", dump_json(config));
}

bool has_tokenizer(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.json", "vocab.json", "encoder.json", "vocab.txt"}) {
    if (file_exists(folder / name)) return true;
  }
  return false;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer.json";
  const auto has = [&](const char* name) { return file_exists(folder / name); };
  if (!has("tokenizer.json") && (has("vocab.json") || has("encoder.json"))) {
    return load_bpe_tokenizer(folder);
  }
  if (!has("tokenizer.json") && has("vocab.txt")) return load_wordpiece_tokenizer(folder);
  const std::string name = file.string();
  const Json json = parse_json(read_regular_file(file), name);
  if (describes_wordpiece(json)) return load_wordpiece_tokenizer(folder);
  std::unique_ptr<Tokenizer> tokenizer;
  if (describes_bpe(json)) {
    tokenizer = std::make_unique<BpeTokenizer>(bpe_model_of(json, name));
  } else {
    tokenizer = Reader(name).read(json);
  }
  const auto kind = configured_kind(folder / "tokenizer_config.json");
  if (kind && *kind != tokenizer->kind()) {
    Reader(name).refuse("a " + printable(*kind) + " tokenizer as tokenizer_config.json says",
                        "a " + std::string(tokenizer->kind()) + " tokenizer");
  }
  return tokenizer;
}

}  // namespace prenorm
