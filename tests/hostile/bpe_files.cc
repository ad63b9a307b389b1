// Malformed tokenizers of GPT models: tokenizer.json (byte, char, BPE), vocab.json and merges.txt.
#include <sys/stat.h>

#include <utility>

#include "prenorm/base/json.h"
#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

class Table : public HostileTable {
 public:
  Table() : HostileTable("tokenizer_", Opener::kTokenizer) {}

  HostileFile& text(const std::string& name, const std::string& text, const std::string& expected) {
    return add_folder(name, {{"tokenizer.json", text}}, "tokenizer.json", expected);
  }
  // The valid BPE, with the value at a JSON pointer put there.
  void bpe(const std::string& name, const std::string& pointer, const Json& value,
           const std::string& expected) {
    text(name, json_with(bpe_, pointer, value), expected);
  }
  void vocabulary(const std::string& name, const std::string& vocabulary,
                  const std::string& expected) {
    bpe(name, "/model/vocab", parse_json(vocabulary, "vocabulary"), expected);
  }
  void added(const std::string& name, const std::string& token, const std::string& expected) {
    bpe(name, "/added_tokens", parse_json("[" + token + "]", "added tokens"), expected);
  }
  // vocab.json and merges.txt, one of them changed.
  HostileFile& gpt2(const std::string& name, const std::string& file, const std::string& text,
                    const std::string& expected) {
    Files files = valid_gpt2_tokenizer();
    files[file] = text;
    return add_folder(name, std::move(files), file, expected);
  }

 private:
  const Json bpe_ = parse_json(valid_bpe().at("tokenizer.json"), "valid");
};

void add_texts(Table& table) {
  table.text("empty", "", "expected JSON");
  table.text("that_is_no_json", "#version: 0.2", "expected JSON");
  table.text("that_is_a_list", "[]", "an object around 'model'");
  table.text("that_is_a_number", "7", "an object around 'model'");
  table.text("without_a_model", "{}", "an object around 'type'");
  table.text("with_a_model_that_is_text", R"({"model":"BPE"})", "an object around 'type'");
  table.text("nested_too_deep", "{\"model\":" + std::string(100'000, '['), "64 levels");
  table.text("key_twice", R"({"model":{},"model":{}})", "'model' twice");
  table.text("of_another_kind", R"({"model":{"type":"Unigram","vocab":[["a",0.0]]}})",
             "a byte, char or BPE tokenizer");
  table.text("char_without_a_vocabulary", R"({"model":{"type":"BPE","vocab":[],"merges":[]}})",
             "a vocabulary");
  table.text("char_of_two_letters", R"({"model":{"type":"BPE","vocab":{"ab":0},"merges":[]}})",
             "tokens of one character");
  table.text("char_id_beyond", R"({"model":{"type":"BPE","vocab":{"a":1},"merges":[]}})",
             "ids 0 to 0");
  table.text("char_id_twice", R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})",
             "each once");
  table.text("char_with_another_decoder",
             R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"X"}})",
             "with decoder 'X'");
  table.text("byte_of_another_vocabulary",
             R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":)"
             R"({"type":"ByteLevel","use_regex":false},"decoder":{"type":"ByteLevel"}})",
             "the 256 bytes as vocabulary");
}

void add_bpe(Table& table) {
  table.bpe("normalizer", "/normalizer", {{"type", "NFC"}}, "a BPE without normalizer");
  table.bpe("prefix_space", "/pre_tokenizer/add_prefix_space", true, "add_prefix_space false");
  table.bpe("byte_fallback", "/model/byte_fallback", true, "byte_fallback false");
  table.bpe("dropout", "/model/dropout", 0.5, "dropout 0");
  table.bpe("suffix", "/model/end_of_word_suffix", "</w>", "end_of_word_suffix");
  table.bpe("decoder_that_is_a_list", "/decoder", Json::array({1}), "an object around 'type'");
  table.vocabulary("vocabulary_that_is_a_list", "[\"a\"]", "a vocabulary");
  table.vocabulary("vocabulary_empty", "{}", "a vocabulary");
  table.vocabulary("id_negative", R"({"a":-1})", "ids 0 to 1");
  table.vocabulary("id_of_2_to_the_40", R"({"a":1099511627776})", "ids 0 to 1");
  table.vocabulary("id_of_2_to_the_64", R"({"a":18446744073709551616})", "ids 0 to 1");
  table.vocabulary("id_of_2_to_the_32_that_wraps_to_0", R"({"a":4294967296})", "ids 0 to 1");
  table.vocabulary("id_fractional", R"({"a":0.5})", "ids 0 to 1");
  table.vocabulary("id_that_is_text", R"({"a":"0"})", "ids 0 to 1");
  table.vocabulary("id_that_is_a_list", R"({"a":[0]})", "ids 0 to 1");
  table.vocabulary("id_twice", R"({"a":0,"b":0})", "each id once");
  table.vocabulary("token_empty", R"({"":0})", "tokens that are not empty");
  table.bpe("merges_that_are_an_object", "/model/merges", Json::object(), "a list of merges");
  table.bpe("merge_of_three_tokens", "/model/merges", Json::array({"t h e"}), "two tokens");
  table.bpe("merge_of_one_token", "/model/merges", Json::array({"th"}), "two tokens");
  table.bpe("merge_that_is_a_number", "/model/merges", Json::array({7}), "two tokens in merge 1");
  table.bpe("merge_of_three_in_a_list", "/model/merges",
            Json::array({Json::array({"t", "h", "e"})}), "two tokens in merge 1");
  table.bpe("merge_of_an_unknown_token", "/model/merges", Json::array({"t \xE4\xB8\xAD"}),
            "tokens of the vocabulary in merge 1");
  table.bpe("merge_into_an_unknown_token", "/model/merges", Json::array({"q z"}),
            "tokens of the vocabulary in merge 1");
  table.bpe("added_tokens_that_are_an_object", "/added_tokens", Json::object({{"a", 1}}),
            "a list of added_tokens");
  table.added("added_without_content", R"({"id":264})", "text in added_tokens");
  table.added("added_with_empty_content", R"({"id":264,"content":""})", "text in added_tokens");
  table.added("added_without_id", R"({"content":"x"})", "ids 0 to");
  table.added("added_far_beyond", R"({"id":2147483647,"content":"x"})", "ids 0 to");
  table.added("added_with_a_gap", R"({"id":265,"content":"x"})", "each id and each token once");
  table.added("added_over_another", R"({"id":5,"content":"<s>"})", "each id and each token once");
  table.added("added_twice",
              R"({"id":264,"content":"<|endoftext|>"},)"
              R"({"id":264,"content":"<|endoftext|>"})",
              "each id and each token once");
  table.added("added_that_strips", R"({"id":264,"content":"<|endoftext|>","lstrip":true})",
              "lstrip false");
  table.added("added_with_a_number_as_flag", R"({"id":264,"content":"x","special":1})",
              "special true or false");
  table.added("added_that_is_text", "\"<|endoftext|>\"", "an object around 'content'");
}

void add_files(Table& table) {
  const Files valid = valid_gpt2_tokenizer();
  table.gpt2("vocab_that_is_no_json", "vocab.json", "a 0\n", "expected JSON");
  table.gpt2("vocab_that_is_a_list", "vocab.json", "[\"a\"]", "a vocabulary");
  table.gpt2("vocab_with_a_gap", "vocab.json", R"({"a":0,"b":2})", "ids 0 to 1");
  table.gpt2("merges_of_one_word", "merges.txt", "#version: 0.2\nthe\n", "line 2");
  table.gpt2("merges_with_three_words", "merges.txt", "t h e\n", "line 1");
  table.gpt2("merges_with_an_empty_line", "merges.txt", "t h\n\nth e\n", "line 2");
  table.gpt2("merges_of_unknown_tokens", "merges.txt", "t h\nqq zz\n", "in merge 2");
  table.gpt2("merges_of_zeros", "merges.txt", std::string(1000, '\0'), "line 1");
  HostileFile* file = &table.gpt2("merges_missing", "merges.txt", "", "no such file");
  file->files.erase("merges.txt");
  file = &table.gpt2("merges_that_are_a_pipe", "merges.txt", "", "a pipe or a device");
  file->files.erase("merges.txt");
  file->arrange = [](const std::filesystem::path& folder) {
    mkfifo((folder / "merges.txt").c_str(), 0600);
  };
  file = &table.text("that_is_a_pipe", "", "a pipe or a device");
  file->files.clear();
  file->arrange = [](const std::filesystem::path& folder) {
    mkfifo((folder / "tokenizer.json").c_str(), 0600);
  };
  table.text("missing", "", "no such file").files.clear();
  Files bytes = valid_model();
  bytes["tokenizer_config.json"] = "[]";
  table.add_folder("config_that_is_a_list", bytes, "tokenizer_config.json", "an object");
  bytes["tokenizer_config.json"] = R"({"prenorm_tokenizer":"char"})";
  table.add_folder("config_of_another_kind", bytes, "tokenizer.json", "a char tokenizer");
}

}  // namespace

std::vector<HostileFile> bpe_files() {
  Table table;
  add_texts(table);
  add_bpe(table);
  add_files(table);
  return table.take();
}

}  // namespace prenorm::hostile
