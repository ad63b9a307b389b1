#include "prenorm/cli/tokenize.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/message.h"
#include "prenorm/cli/tokenize_train.h"
#include "prenorm/cli/tokenizer_choice.h"
#include "prenorm/text/char_tokenizer.h"

namespace prenorm::cli {
namespace {

struct Input {
  std::string name, bytes;
};

Input read_input(const std::string& path) {
  if (path != "-") return {path, read_file(path)};
  return {"standard input", read_stream(std::cin, "standard input")};
}

class Tokenize : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Input");
    table.text("tokenizer", name_, "NAME", kTokenizerNames);
    table.text("model", folder_, "DIR", "model folder whose tokenizer to use").short_name('m');
    table.texts("data", files_, "FILE", "what to read; - or none: standard input")
        .from_positionals();
    table.group("Direction");
    table.flag("special", special_, "<|endoftext|> and the like in the text are special tokens");
    table.flag("decode", decode_, "lines {\"ids\": [...]} back to the bytes");
    table.group("Training");
    table.flag("train", train_, "learn a byte-level BPE from the text and write it to --out-dir");
    table.integer("vocab-size", training_.vocab_size, {257, 1 << 30},
                  "tokens to end with, the 256 bytes and <|endoftext|> among them");
    table.integer("min-frequency", training_.min_frequency, {0, Index{1} << 31},
                  "how often a pair of tokens must come to be merged");
    table.text("out-dir", training_.out_dir, "DIR", "where the tokenizer goes");
    table.flag("force", training_.force, "replace a tokenizer that is there");
    table.group("Output");
    common_.declare_output(
        table,
        "print one JSON object a file: ids; with --train one: out_dir, vocab_size, merges, bytes");
  }

  int run(const OptionTable& table, const Streams& streams) override {
    const std::vector<std::string> paths = files_.empty() ? std::vector<std::string>{"-"} : files_;
    if (std::ranges::count(paths, "-") > 1) {
      throw ConfigError("--data: expected '-' (standard input) once, found it twice");
    }
    if (train_) return train(table, paths, streams);
    for (const char* flag : {"vocab-size", "min-frequency", "out-dir", "force"}) {
      if (table.given(flag)) {
        throw ConfigError("--" + std::string(flag) + ": expected --train with it, found none");
      }
    }
    std::unique_ptr<Tokenizer> tokenizer = named_tokenizer(table);
    if (decode_) {
      if (!tokenizer) throw ConfigError("-m: expected a folder with the characters, found none");
      for (const std::string& path : paths) decode(*tokenizer, read_input(path), streams.out);
      return kDone;
    }
    std::vector<Input> inputs;
    if (!tokenizer) {
      for (const std::string& path : paths) inputs.push_back(read_input(path));
      tokenizer = tokenizer_of(inputs);
    }
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const Input input = inputs.empty() ? read_input(paths[i]) : std::move(inputs[i]);
      const std::vector<TokenId> ids = encode(*tokenizer, input);
      if (common_.json) {
        print_json(ids, streams.out);
      } else {
        print_table(*tokenizer, ids, streams.out);
      }
    }
    return kDone;
  }

 private:
  int train(const OptionTable& table, const std::vector<std::string>& paths,
            const Streams& streams) {
    for (const char* flag : {"tokenizer", "model", "decode"}) {
      if (table.given(flag)) {
        throw ConfigError("--train: expected without --" + std::string(flag) + ", found both");
      }
    }
    training_.files = paths;
    training_.special = special_;
    training_.json = common_.json;
    return train_tokenizer(training_, streams);
  }

  // Null: of the text's characters.
  std::unique_ptr<Tokenizer> named_tokenizer(const OptionTable& table) const {
    if (folder_.empty()) return open_tokenizer(name_);
    std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(folder_);
    if (table.given("tokenizer") && name_ != tokenizer->kind()) {
      throw ConfigError("--tokenizer: expected " + std::string(tokenizer->kind()) + " as in " +
                        in_quotes(folder_) + ", found " + in_quotes(name_));
    }
    return tokenizer;
  }

  static std::unique_ptr<Tokenizer> tokenizer_of(const std::vector<Input>& inputs) {
    std::string text;
    for (const Input& input : inputs) {
      if (const auto at = find_invalid_utf8(input.bytes)) {
        throw DataError(printable(input.name) + ": expected UTF-8 text, found '" +
                        printable(input.bytes.substr(*at, 1)) + "' at byte " + std::to_string(*at));
      }
      text += input.bytes;
    }
    if (text.empty()) text = " ";  // any vocabulary will do
    return std::make_unique<CharTokenizer>(CharTokenizer::from_text(text));
  }

  std::vector<TokenId> encode(const Tokenizer& tokenizer, const Input& input) const {
    try {
      return special_ ? tokenizer.encode_with_special_tokens(input.bytes)
                      : tokenizer.encode(input.bytes);
    } catch (const EncodeError& error) {
      throw EncodeError(printable(input.name), error.offset, error.expected, error.found);
    }
  }

  static void print_json(const std::vector<TokenId>& ids, Output& out) {
    std::string line = "{\"ids\":[";
    char digits[std::numeric_limits<TokenId>::digits10 + 2];
    for (const TokenId id : ids) {
      const auto end = std::to_chars(std::begin(digits), std::end(digits), id).ptr;
      line.append(digits, end).push_back(',');
    }
    if (!ids.empty()) line.pop_back();
    out.write(line + "]}\n");
  }

  static void print_table(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                          Output& out) {
    for (const TokenId id : ids) {
      out.print("{:>7}  {}\n", id, in_quotes(tokenizer.decode(id)));
    }
  }

  static std::vector<TokenId> ids_of(std::string_view line, const std::string& place) {
    const Json json = parse_json(line, place);
    const auto ids = json.is_object() ? json.find("ids") : json.end();
    if (ids == json.end() || !ids->is_array()) {
      throw FormatError(place + ": expected an object with a list 'ids', found '" +
                        printable(line, 40) + "'");
    }
    std::vector<TokenId> out;
    out.reserve(ids->size());
    for (const Json& id : *ids) {
      // Whether the vocabulary has them is for the tokenizer to tell.
      const bool fits =
          id.is_number_unsigned()
              ? std::in_range<TokenId>(id.get<std::uint64_t>())
              : id.is_number_integer() && std::in_range<TokenId>(id.get<std::int64_t>());
      if (!fits) {
        throw FormatError(place + ": expected token ids in 'ids', found " +
                          printable(dump_json_compact(id), 40));
      }
      out.push_back(id.get<TokenId>());
    }
    return out;
  }

  static void decode(const Tokenizer& tokenizer, const Input& input, Output& out) {
    std::string_view rest = input.bytes;
    for (std::size_t number = 1; !rest.empty(); ++number) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string place = printable(input.name) + ", line " + std::to_string(number);
      const std::vector<TokenId> ids = ids_of(line, place);
      try {
        out.write(tokenizer.decode(ids));
      } catch (const DataError& error) {
        throw DataError(place + ", " + error.what());
      }
    }
  }

  std::string name_, folder_;
  std::vector<std::string> files_;
  bool special_ = false, decode_ = false, train_ = false;
  TokenizeTraining training_;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_tokenize() { return std::make_unique<Tokenize>(); }

}  // namespace prenorm::cli
