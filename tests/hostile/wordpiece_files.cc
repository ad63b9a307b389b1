// Malformed tokenizers of BERT models: tokenizer.json of a WordPiece, vocab.txt.
#include <utility>

#include "prenorm/base/json.h"
#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

class Table : public HostileTable {
 public:
  Table() : HostileTable("wordpiece_", Opener::kTokenizer) {}

  // The valid tokenizer.json, with the value at a JSON pointer put there.
  void put(const std::string& name, const std::string& pointer, const Json& value,
           const std::string& expected) {
    add_folder(name, {{"tokenizer.json", json_with(valid_, pointer, value)}}, "tokenizer.json",
               expected);
  }
  void added(const std::string& name, const Json& tokens, const std::string& expected) {
    put(name, "/added_tokens", tokens, expected);
  }
  void lines(const std::string& name, const std::string& text, const std::string& expected) {
    add_folder(name, {{"vocab.txt", text}}, "vocab.txt", expected);
  }
  void config(const std::string& name, const std::string& text, const std::string& expected) {
    Files files = valid_vocabulary();
    files["tokenizer_config.json"] = text;
    add_folder(name, std::move(files), "tokenizer_config.json", expected);
  }

 private:
  const Json valid_ = parse_json(valid_wordpiece().at("tokenizer.json"), "valid");
};

Json token(const std::string& content, const Json& id) {
  return {{"content", content}, {"id", id}};
}

void add_json(Table& table) {
  table.put("normalizer_of_another_kind", "/normalizer", {{"type", "NFKC"}}, "BertNormalizer");
  table.put("normalizer_that_is_text", "/normalizer", "BertNormalizer", "an object around 'type'");
  table.put("normalizer_with_a_number", "/normalizer/lowercase", 1, "lowercase true or false");
  table.put("without_pre_tokenizer", "/pre_tokenizer", nullptr, "BertPreTokenizer");
  table.put("vocabulary_that_is_a_list", "/model/vocab", Json::array({"a"}), "a vocabulary");
  table.put("id_negative", "/model/vocab/the", -1, "ids 0 to");
  table.put("id_far_beyond", "/model/vocab/the", 1'000'000'000, "ids 0 to");
  table.put("id_twice", "/model/vocab/the", 0, "each id once");
  table.put("token_empty", "/model/vocab", {{"", 0}}, "tokens that are not empty");
  table.put("without_the_unknown_token", "/model/unk_token", "[X]", "'[X]' in the vocabulary");
  table.put("unknown_token_that_is_a_number", "/model/unk_token", 1, "text as unk_token");
  table.put("words_of_a_billion_characters", "/model/max_input_chars_per_word", 1'000'000'000,
            "1 to 1000");
  table.put("words_of_no_characters", "/model/max_input_chars_per_word", 0, "1 to 1000");
  table.put("post_processor_that_is_text", "/post_processor", "x", "an object around 'type'");
  table.put("post_processor_of_two_parts", "/post_processor/single",
            Json::array({Json::object(), Json::object()}), "a post_processor of [CLS]");
  table.put("post_processor_of_numbers", "/post_processor/single", Json::array({1, 2, 3}),
            "a post_processor of [CLS]");
  table.put("frame_of_an_unknown_token", "/post_processor/single/0/SpecialToken/id", "[X]",
            "'[X]' in the vocabulary");
  table.put("processing_without_tokens", "/post_processor", {{"type", "BertProcessing"}},
            "a token and its id in post_processor");
}

void add_added(Table& table) {
  table.added("added_that_is_an_object", {{"a", 1}}, "a list of added_tokens");
  table.added("added_that_are_numbers", Json::array({1}), "an object around 'content'");
  table.added("added_without_id", Json::array({{{"content", "x"}}}), "a token and its id");
  table.added("added_negative", Json::array({token("x", -1)}), "a token and its id");
  table.added("added_far_beyond", Json::array({token("x", 2'000'000)}), "a token and its id");
  table.added("added_over_another", Json::array({token("x", 5)}), "'x' with id 5");
  table.added("added_that_strips",
              Json::array({{{"content", "[PAD]"}, {"id", 0}, {"rstrip", true}}}), "rstrip false");
  // Each within reach of the one before: the vocabulary would grow by 2 MiB with every token.
  Json ladder = Json::array();
  for (int i = 1; i <= 10'000; ++i) ladder.push_back(token("t" + std::to_string(i), i * 65'000));
  table.added("added_one_behind_the_other", ladder, "a token and its id");
}

void add_lists(Table& table) {
  const std::string valid = valid_vocabulary().at("vocab.txt");
  table.lines("list_empty", "", "a token a line");
  table.lines("list_without_unknown", "[CLS]\n[SEP]\na\n", "'[UNK]' in the vocabulary");
  table.lines("list_without_a_frame", "[UNK]\na\n", "'[CLS]' in the vocabulary");
  table.lines("list_with_a_token_twice", valid + "the\n", "each token once, found 'the'");
  table.lines("list_of_a_million_empty_lines", std::string(1'000'000, '\n'), "in the vocabulary");
  table.config("config_that_is_a_list", "[]", "an object around");
  table.config("config_that_does_not_split", R"({"do_basic_tokenize":false})",
               "do_basic_tokenize true");
  table.config("config_that_keeps_words", R"({"never_split":["a"]})", "no never_split");
  table.config("config_with_a_number_as_token", R"({"unk_token":7})", "text as unk_token");
}

}  // namespace

std::vector<HostileFile> wordpiece_files() {
  Table table;
  add_json(table);
  add_added(table);
  add_lists(table);
  return table.take();
}

}  // namespace prenorm::hostile
