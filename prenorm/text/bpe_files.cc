#include "prenorm/text/bpe_files.h"

#include <algorithm>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/text/bpe_json.h"

namespace prenorm {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

}  // namespace

BpeModel read_bpe_model(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return file_exists(folder / name); };
  if (has("tokenizer.json")) {
    const std::filesystem::path file = folder / "tokenizer.json";
    const std::string name = file.string();
    return bpe_model_of(parse_json(read_regular_file(file), name), name);
  }
  for (const auto& [vocab, merges] :
       {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
    if (has(vocab) || has(merges)) return read_bpe_model(folder / vocab, folder / merges);
  }
  throw IoError(folder.string() +
                ": expected tokenizer.json, or vocab.json and merges.txt, or encoder.json and "
                "vocab.bpe, found none of them");
}

BpeModel read_bpe_model(const std::filesystem::path& vocab_file,
                        const std::filesystem::path& merges_file) {
  const std::string vocab_name = vocab_file.string(), merges_name = merges_file.string();
  BpeModel model;
  model.tokens =
      read_vocabulary(parse_json(read_regular_file(vocab_file), vocab_name), 0, vocab_name);
  const std::string merges = read_regular_file(merges_file);
  model.merges = resolve_merges(model.tokens, parse_merges(merges, merges_name), merges_name);
  const auto end_of_text = std::ranges::find(model.tokens, kEndOfText);
  if (end_of_text != model.tokens.end()) {
    model.added_tokens.push_back(
        {kEndOfText, static_cast<TokenId>(end_of_text - model.tokens.begin())});
  }
  model.validate(vocab_name);
  return model;
}

std::vector<MergeText> parse_merges(std::string_view text, std::string_view name) {
  std::vector<MergeText> merges;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (number == 1 && line.starts_with("#version")) continue;
    if (line.empty() && text.empty()) break;
    merges.push_back(read_merge(line, "line " + std::to_string(number), name));
  }
  return merges;
}

void save_bpe_model(const std::filesystem::path& folder, const BpeModel& model) {
  const bool ends = std::ranges::find(model.added_tokens, kEndOfText, &AddedToken::content) !=
                    model.added_tokens.end();
  const Json end_of_text = ends ? Json(kEndOfText) : Json();
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"clean_up_tokenization_spaces", false},
                       {"bos_token", end_of_text},
                       {"eos_token", end_of_text},
                       {"unk_token", nullptr},
                       {"prenorm_tokenizer", "bpe"}};
  write_file_durably(folder / "tokenizer.json", dump_json(tokenizer_json_of(model)));
  write_file_durably(folder / "tokenizer_config.json", dump_json(config));
}

}  // namespace prenorm
