// Malformed folders of sentence encoders: modules.json and what it leads to, BERT's config and
// weights.
#include <sys/stat.h>

#include <utility>

#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

constexpr const char* kModules = "modules.json";
constexpr const char* kPooling = "1_Pooling/config.json";
constexpr const char* kLength = "sentence_bert_config.json";

class Table : public HostileTable {
 public:
  Table() : HostileTable("encoder_", Opener::kEncoder) {}

  HostileFile& add(const std::string& name, const std::string& file, const std::string& text,
                   const std::string& expected) {
    HostileFile& added = add_folder(name, valid_encoder(), file, expected);
    added.files[file] = text;
    return added;
  }
  HostileFile& path(const std::string& name, const std::string& path, const std::string& expected) {
    const std::string type = R"("type":"sentence_transformers.models.)";
    return add(name, kModules,
               R"([{"path":"",)" + type + R"(Transformer"},{"path":")" + path + "\"," + type +
                   R"(Pooling"}])",
               expected);
  }
  void bert(const std::string& name, const std::string& key, const std::string& value,
            const std::string& expected) {
    add(name, "config.json", bert_config_with(key, value), expected);
  }
  void other_size(const std::string& name, const std::string& key, const std::string& value,
                  const std::string& expected) {
    add(name, "config.json", bert_config_with(key, value), expected).culprit = "model.safetensors";
  }
};

void add_modules(Table& table) {
  table.add("modules_that_are_no_json", kModules, "modules", "expected JSON");
  table.add("modules_that_are_an_object", kModules, "{}", "a list of modules");
  table.add("modules_of_numbers", kModules, "[1]", "an object around 'path'");
  table.add("modules_empty", kModules, "[]", "the modules Transformer, Pooling");
  table.add("modules_without_a_path", kModules, "[{\"type\":\"Pooling\"}]", "a path in each");
  table.add("modules_of_another_kind", kModules,
            R"([{"path":"","type":"a.Transformer"},{"path":"2","type":"a.Dense"}])",
            "found Transformer, Dense");
  table.path("module_in_the_folder_above", "../1_Pooling", "modules inside the folder");
  table.path("module_above_in_the_middle", "1_Pooling/../../x", "modules inside the folder");
  table.path("module_at_an_absolute_path", "/etc", "modules inside the folder");
  table.path("module_with_nul", "1_Pooling\\u0000", "modules inside the folder");
  table.path("module_with_a_backslash", "..\\\\x", "modules inside the folder");
  HostileFile* file = &table.path("module_behind_a_link_out", "out", "modules inside the folder");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_directory_symlink("/etc", folder / "out");
  };
  table.path("module_of_a_very_long_name", std::string(5000, 'x'), "modules inside the folder");
  file = &table.path("module_missing", "2_Pooling", "no");
  file->culprit = "2_Pooling";
  table.add("prompt_by_default", "config_sentence_transformers.json",
            R"({"default_prompt_name":"query"})", "no default_prompt_name");
}

void add_parts(Table& table) {
  table.add("pooling_that_is_no_json", kPooling, "{", "expected JSON");
  table.add("pooling_of_two_kinds", kPooling,
            R"({"pooling_mode_cls_token":true,"pooling_mode_max_tokens":true})",
            "one pooling mode");
  table.add("pooling_of_the_last_token", kPooling, R"({"pooling_mode_lasttoken":true})",
            "mean, cls or max pooling");
  table.add("pooling_with_a_number", kPooling, R"({"pooling_mode_cls_token":1})",
            "pooling_mode_cls_token true or false");
  HostileFile& file = table.add("pooling_that_is_a_pipe", kPooling, "", "a pipe or a device");
  file.files.erase(kPooling);
  file.arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_directory(folder / "1_Pooling");
    mkfifo((folder / kPooling).c_str(), 0600);
  };
  HostileFile& link =
      table.add("pooling_that_is_a_link_out", kPooling, "", "a link that leads out");
  link.files.erase(kPooling);
  link.arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_directory(folder / "1_Pooling");
    std::filesystem::create_symlink("/etc/hostname", folder / kPooling);
  };
  table.add("length_2", kLength, R"({"max_seq_length":2})", "max_seq_length of at least 3");
  table.add("length_negative", kLength, R"({"max_seq_length":-1})", "max_seq_length");
  table.add("length_2_to_the_40", kLength, R"({"max_seq_length":1099511627776})", "max_seq_length");
  table.add("length_as_text", kLength, R"({"max_seq_length":"12"})", "max_seq_length");
}

void add_bert(Table& table) {
  table.bert("of_another_model", "model_type", "\"roberta\"", "model_type: expected \"bert\"");
  table.bert("heads_0", "num_attention_heads", "0", "num_attention_heads: expected");
  table.bert("heads_that_do_not_divide", "num_attention_heads", "3", "divides hidden_size = 4");
  table.bert("width_2_to_the_63", "hidden_size", "9223372036854775808", "hidden_size: expected");
  table.bert("layers_negative", "num_hidden_layers", "-1", "num_hidden_layers: expected");
  table.bert("layers_a_billion", "num_hidden_layers", "1000000000", "num_hidden_layers: expected");
  table.bert("layers_1e999", "num_hidden_layers", "1e999", "a number out of range");
  table.bert("types_0", "type_vocab_size", "0", "type_vocab_size: expected");
  table.bert("vocabulary_negative", "vocab_size", "-1", "vocab_size: expected");
  table.bert("padding_beyond", "pad_token_id", "9", "an id of the vocabulary");
  table.bert("padding_negative", "pad_token_id", "-1", "an id of the vocabulary");
  table.bert("epsilon_0", "layer_norm_eps", "0", "layer_norm_eps: expected");
  table.bert("activation_unknown", "hidden_act", "\"swish\"", "hidden_act: expected");
  table.bert("relative_positions", "position_embedding_type", "\"relative_key\"", "absolute");
  table.bert("decoder", "is_decoder", "true", "is_decoder: expected false");
  table.other_size("layers_10000000", "num_hidden_layers", "10000000", "expected 10000000 layers");
  table.other_size("layers_12", "num_hidden_layers", "12", "missing");
  table.other_size("width_16777216", "hidden_size", "16777216", "of another shape");
  table.other_size("vocabulary_16777216", "vocab_size", "16777216", "1 of another shape");
  table.other_size("context_16777216", "max_position_embeddings", "16777216", "1 of another");
  table.add("weights_damaged", "model.safetensors", "x", "at least 8 bytes");
  HostileFile& small = table.add("tokenizer_larger_than_the_model", "config.json",
                                 bert_config_with("vocab_size", "9"), "at most the model's 9");
  small.files = valid_encoder();
  small.files["tokenizer.json"].replace(small.files["tokenizer.json"].find("\"a\": 8"), 6,
                                        "\"a\": 8, \"b\": 9");
  small.culprit = "";
}

}  // namespace

std::vector<HostileFile> encoder_files() {
  Table table;
  add_modules(table);
  add_parts(table);
  add_bert(table);
  return table.take();
}

}  // namespace prenorm::hostile
