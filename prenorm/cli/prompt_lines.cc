#include "prenorm/cli/prompt_lines.h"

#include <algorithm>
#include <iostream>
#include <string_view>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"

namespace prenorm::cli {
namespace {

std::vector<TokenId> ids_of(const Json& json, const std::string& place, Index vocab_size) {
  if (!json.is_array()) {
    throw FormatError(place + ": expected a list of token ids in 'ids', found " +
                      printable(dump_json_compact(json), 40));
  }
  std::vector<TokenId> ids;
  ids.reserve(json.size());
  for (const Json& id : json) {
    // −1 is a large number here.
    if (!id.is_number_integer() ||
        id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab_size)) {
      throw FormatError(place + ": expected token ids from 0 to " + std::to_string(vocab_size - 1) +
                        " in 'ids', found " + printable(dump_json_compact(id), 40));
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

std::vector<TokenId> encode(const Json& json, const std::string& place,
                            const Tokenizer* tokenizer) {
  if (!json.is_string()) {
    throw FormatError(place + ": expected a string in 'text', found " +
                      printable(dump_json_compact(json), 40));
  }
  if (tokenizer == nullptr) {
    throw DataError(place + ": expected 'ids', as the model has no tokenizer, found 'text'");
  }
  try {
    return tokenizer->encode(json.get_ref<const std::string&>());
  } catch (const EncodeError& error) {
    throw EncodeError(place, error.offset, error.expected, error.found);
  }
}

Prompt prompt_of(std::string_view line, const std::string& place, const GptConfig& model,
                 const Tokenizer* tokenizer) {
  const Json json = parse_json(line, place);
  const bool object = json.is_object();
  const bool text = object && json.contains("text"), ids = object && json.contains("ids");
  if (text == ids) {
    throw FormatError(place + ": expected an object with 'text' or 'ids', found " +
                      (text ? "both" : "'" + printable(line, 40) + "'"));
  }
  Prompt prompt;
  prompt.place = place;
  prompt.ids = text ? encode(json.at("text"), place, tokenizer)
                    : ids_of(json.at("ids"), place, model.vocab_size);
  if (prompt.ids.empty()) {
    throw DataError(place + ": expected at least one token to go on from, found none");
  }
  return prompt;
}

}  // namespace

std::vector<Prompt> parse_prompts(std::string_view bytes, const std::string& name,
                                  const GptConfig& model, const Tokenizer* tokenizer) {
  std::vector<Prompt> prompts;
  for (std::size_t number = 1; !bytes.empty(); ++number) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(line.size() + 1, bytes.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = printable(name) + ", line " + std::to_string(number);
    prompts.push_back(prompt_of(line, place, model, tokenizer));
  }
  if (prompts.empty()) {
    throw DataError(printable(name) + ": expected a prompt a line, found none");
  }
  return prompts;
}

std::vector<Prompt> read_prompts(const std::string& path, const GptConfig& model,
                                 const Tokenizer* tokenizer) {
  if (path == "-") {
    const std::string name = "standard input";
    return parse_prompts(read_stream(std::cin, name), name, model, tokenizer);
  }
  return parse_prompts(read_file(path), path, model, tokenizer);
}

}  // namespace prenorm::cli
