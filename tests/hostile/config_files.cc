// Model folders whose config.json or generation_config.json is malformed, absurd, or at odds with
// the weights beside it.
#include <sys/stat.h>

#include <utility>

#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

class Table : public HostileTable {
 public:
  Table() : HostileTable("config_", Opener::kModel) {}

  HostileFile& add(const std::string& name, const std::string& config,
                   const std::string& expected) {
    HostileFile& file = add_folder(name, valid_model(), "config.json", expected);
    file.files["config.json"] = config;
    return file;
  }
  // The valid config but for one key.
  HostileFile& key(const std::string& name, const std::string& key, const std::string& value,
                   const std::string& expected) {
    return add(name, gpt_config_with(key, value), expected);
  }
  // A config that is valid for itself, of another size than the weights.
  void other_size(const std::string& name, const std::string& key, const std::string& value,
                  const std::string& expected) {
    this->key(name, key, value, expected).culprit = "model.safetensors";
  }
  HostileFile& generation(const std::string& name, const std::string& text,
                          const std::string& expected) {
    HostileFile& file = add(name, valid_model().at("config.json"), expected);
    file.files["generation_config.json"] = text;
    file.culprit = "generation_config.json";
    return file;
  }
};

void add_texts(Table& table) {
  table.add("empty", "", "expected JSON");
  table.add("that_is_no_json", "n_layer: 1", "expected JSON");
  table.add("that_is_a_list", "[1]", "an object");
  table.add("hidden_behind_nul", std::string("{}\0{\"n_layer\":1}", 15), "'\\x00' at byte 2");
  table.add("cut_off", "{\"n_layer\":1", "expected JSON");
  table.add("nested_too_deep", std::string(100'000, '['), "64 levels");
  table.add("key_twice", "{\"n_layer\":1,\"n_layer\":1}", "'n_layer' twice");
  table.add("with_nan", "{\"layer_norm_epsilon\":NaN}", "expected JSON");
  table.add("not_utf8", "{\"model_type\":\"\xFF\"}", "expected JSON");
  table.add("with_a_byte_order_mark_alone", "\xEF\xBB", "expected JSON");
}

void add_numbers(Table& table) {
  table.key("layers_1e999", "n_layer", "1e999", "a number out of range");
  table.key("layers_1e9", "n_layer", "1e9", "n_layer: expected a whole number");
  table.key("layers_negative", "n_layer", "-1", "n_layer: expected a whole number from 1");
  table.key("layers_0", "n_layer", "0", "n_layer: expected a whole number from 1");
  table.key("layers_2_to_the_64", "n_layer", "18446744073709551616", "n_layer: expected a whole");
  table.key("layers_2_to_the_63", "n_layer", "9223372036854775808", "n_layer: expected a whole");
  table.key("layers_as_text", "n_layer", "\"1\"", "n_layer: expected a whole number");
  table.key("layers_true", "n_layer", "true", "n_layer: expected a whole number");
  table.key("layers_fractional", "n_layer", "1.5", "n_layer: expected a whole number");
  table.key("vocabulary_2_to_the_40", "vocab_size", "1099511627776", "vocab_size: expected");
  table.key("vocabulary_0", "vocab_size", "0", "vocab_size: expected");
  table.key("context_0", "n_positions", "0", "n_positions: expected");
  table.key("heads_0", "n_head", "0", "n_head: expected");
  table.key("heads_negative", "n_head", "-2", "n_head: expected");
  table.key("heads_that_do_not_divide", "n_head", "3", "divides n_embd = 4");
  table.key("width_negative", "n_embd", "-4", "n_embd: expected");
  table.key("inner_0", "n_inner", "0", "n_inner: expected null or 1 or more");
  table.key("inner_as_list", "n_inner", "[16]", "n_inner: expected a whole number");
  table.key("epsilon_0", "layer_norm_epsilon", "0", "layer_norm_epsilon: expected a positive");
  table.key("epsilon_negative", "layer_norm_epsilon", "-1e-5", "layer_norm_epsilon: expected");
  table.key("epsilon_that_underflows", "layer_norm_epsilon", "1e-400", "layer_norm_epsilon");
  table.key("epsilon_as_text", "layer_norm_epsilon", "\"1e-5\"", "layer_norm_epsilon: expected");
  table.key("dropout_above_1", "resid_pdrop", "1.5", "resid_pdrop: expected a probability");
  table.key("dropout_negative", "attn_pdrop", "-0.1", "attn_pdrop: expected a probability");
  table.key("a_model_that_cannot_be_counted", "n_embd", "2147483646", "more than 2^57");
  table.key("token_id_2_to_the_40", "eos_token_id", "1099511627776", "eos_token_id: expected");
  table.key("token_ids_as_text", "eos_token_id", "[\"0\"]", "eos_token_id: expected");
}

void add_kinds(Table& table) {
  table.key("of_another_model", "model_type", "\"llama\"", "model_type: expected gpt2");
  table.key("model_type_that_is_a_number", "model_type", "2", "model_type: expected a string");
  table.key("activation_unknown", "activation_function", "\"relu6\"", "activation_function");
  table.key("post_norm_as_gpt2", "norm", "\"post\"", "norm: expected pre");
  table.key("cross_attention", "add_cross_attention", "true", "add_cross_attention: expected");
  table.key("quantized", "quantization_config", "{\"bits\":4}", "quantization_config: expected");
  table.key("pruned", "pruned_heads", "{\"0\":[1]}", "pruned_heads: expected none");
  table.key("tied_neither_true_nor_false", "tie_word_embeddings", "1", "expected true or false");
}

// Memory for such models must not be asked for before their weights have been looked at.
void add_sizes(Table& table) {
  table.other_size("of_a_billion_layers", "n_layer", "1000000000", "expected 1000000000 layers");
  table.other_size("of_a_million_layers", "n_layer", "1000000", "expected 1000000 layers");
  table.other_size("of_width_a_million", "n_embd", "1000000", "parameters, as config.json says");
  table.other_size("of_width_1024", "n_embd", "1024", "parameters, as config.json says");
  table.other_size("of_a_vocabulary_of_a_billion", "vocab_size", "1000000000", "as config.json");
  table.other_size("of_a_context_of_a_billion", "n_positions", "1000000000", "as config.json");
  table.other_size("of_a_feed_forward_of_a_billion", "n_inner", "1000000000", "as config.json");
  table.other_size("of_two_layers", "n_layer", "2", "missing");
  table.other_size("of_width_8", "n_embd", "8", "of another shape");
  table.other_size("of_a_longer_context", "n_positions", "9", "1 of another shape");
  table.other_size("of_an_untied_head", "tie_word_embeddings", "false", "1 missing");
}

void add_places(Table& table) {
  const std::string good = valid_model().at("config.json");
  HostileFile* file = &table.add("missing", good, "no such file");
  file->files.erase("config.json");
  file = &table.add("that_is_a_folder", good, "a folder");
  file->files.erase("config.json");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_directory(folder / "config.json");
  };
  file = &table.add("that_is_a_pipe", good, "a pipe or a device");
  file->files.erase("config.json");
  file->arrange = [](const std::filesystem::path& folder) {
    mkfifo((folder / "config.json").c_str(), 0600);
  };
  file = &table.add("that_is_a_device", good, "a pipe or a device");
  file->files.erase("config.json");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_symlink("/dev/zero", folder / "config.json");
  };
  file = &table.add("that_has_a_terabyte", good, "at most 1073741824 bytes");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::resize_file(folder / "config.json", 1ull << 40);  // takes no room on disk
  };
}

void add_generation(Table& table) {
  HostileFile& link = table.generation("generation_that_is_a_link_to_nowhere", "", "no such file");
  link.files.erase("generation_config.json");
  link.arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_symlink("blobs/missing", folder / "generation_config.json");
  };
  table.generation("generation_that_is_no_json", "eos", "expected JSON");
  table.generation("generation_that_is_a_list", "[]", "an object");
  table.generation("generation_with_text_as_id", "{\"eos_token_id\":\"0\"}", "eos_token_id");
  table.generation("generation_with_an_id_of_2_to_the_40", "{\"eos_token_id\":[1099511627776]}",
                   "a token id");
  HostileFile& file = table.generation("generation_that_is_a_pipe", "", "a pipe or a device");
  file.files.erase("generation_config.json");
  file.arrange = [](const std::filesystem::path& folder) {
    mkfifo((folder / "generation_config.json").c_str(), 0600);
  };
}

}  // namespace

std::vector<HostileFile> config_files() {
  Table table;
  add_texts(table);
  add_numbers(table);
  add_kinds(table);
  add_sizes(table);
  add_places(table);
  add_generation(table);
  return table.take();
}

}  // namespace prenorm::hostile
