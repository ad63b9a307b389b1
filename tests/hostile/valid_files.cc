#include "tests/hostile/valid_files.h"

#include <utility>
#include <vector>

#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/config_json.h"
#include "prenorm/text/bpe_json.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/text/wordpiece_json.h"
#include "tests/config_of.h"
#include "tests/formats/torch_bytes.h"
#include "tests/temporary_folder.h"
#include "tests/text/small_bpe.h"

namespace prenorm::hostile {
namespace {

GptConfig small_config() {
  GptConfig config = config_of(1, 2, 4, 8, 256);
  config.bos_token_id.reset();
  config.eos_token_id.reset();
  return config;
}

// Tensors of zeros with the given names and shapes, as the bytes of one file.
class Weights {
 public:
  void add(const std::string& name, std::vector<Index> shape) {
    std::size_t count = 1;
    for (const Index d : shape) count *= static_cast<std::size_t>(d);
    tensors_.push_back(tensor(name, std::move(shape), std::span(zeros_).first(count)));
  }
  // "weight" [in, out] or [out, in], and "bias" [out].
  void linear(const std::string& name, std::vector<Index> shape, Index out) {
    add(name + ".weight", std::move(shape));
    add(name + ".bias", {out});
  }
  void norm(const std::string& name, Index width) { linear(name, {width}, width); }
  std::string bytes() const { return serialize_safetensors(tensors_); }

 private:
  std::vector<float> zeros_ = std::vector<float>(4096);
  std::vector<Tensor> tensors_;
};

std::string gpt_weights() {
  const GptConfig c = small_config();
  const Index width = c.n_embd, inner = 4 * width;
  Weights weights;
  weights.add("transformer.wte.weight", {c.vocab_size, width});
  weights.add("transformer.wpe.weight", {c.block_size, width});
  const std::string h = "transformer.h.0.";
  weights.norm(h + "ln_1", width);
  weights.linear(h + "attn.c_attn", {width, 3 * width}, 3 * width);
  weights.linear(h + "attn.c_proj", {width, width}, width);
  weights.norm(h + "ln_2", width);
  weights.linear(h + "mlp.c_fc", {width, inner}, inner);
  weights.linear(h + "mlp.c_proj", {inner, width}, width);
  weights.norm("transformer.ln_f", width);
  return weights.bytes();
}

std::string bert_weights() {
  const Index width = 4, inner = 8;
  Weights weights;
  weights.add("embeddings.word_embeddings.weight", {9, width});
  weights.add("embeddings.position_embeddings.weight", {16, width});
  weights.add("embeddings.token_type_embeddings.weight", {2, width});
  weights.norm("embeddings.LayerNorm", width);
  const std::string layer = "encoder.layer.0.";
  for (const char* part : {"query", "key", "value"}) {
    weights.linear(layer + "attention.self." + part, {width, width}, width);
  }
  weights.linear(layer + "attention.output.dense", {width, width}, width);
  weights.norm(layer + "attention.output.LayerNorm", width);
  weights.linear(layer + "intermediate.dense", {inner, width}, inner);
  weights.linear(layer + "output.dense", {width, inner}, width);
  weights.norm(layer + "output.LayerNorm", width);
  return weights.bytes();
}

WordPieceModel small_wordpiece() {
  WordPieceModel model;
  model.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "cat", "a"};
  for (TokenId id = 0; id < 5; ++id) {
    model.added_tokens.push_back({model.tokens[static_cast<std::size_t>(id)], id});
  }
  return model;
}

std::string json_with(const std::string& text, const std::string& key, const std::string& value) {
  Json json = Json::parse(text);
  json.erase(key);
  std::string out = dump_json_compact(json);
  if (!value.empty()) out.insert(out.size() - 1, ",\"" + key + "\":" + value);
  return out;
}

const char* const kBertConfig =
    R"({"model_type":"bert","vocab_size":9,"max_position_embeddings":16,"type_vocab_size":2,)"
    R"("hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":8,)"
    R"("hidden_act":"gelu","layer_norm_eps":1e-12,"pad_token_id":0})";

}  // namespace

std::string safetensors(const std::string& header, const std::string& data) {
  return little_endian(static_cast<std::uint64_t>(header.size())) + header + data;
}

std::string valid_safetensors() {
  return safetensors(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"I64","shape":[2],"data_offsets":[24,40]},)"
      R"("c":{"dtype":"BF16","shape":[],"data_offsets":[40,42]}})",
      floats_as_bytes({0, 1, 2, 3, 4, 5}) + little_endian<std::int64_t>(7) +
          little_endian<std::int64_t>(-1) + "\x80\x3F");
}

std::string valid_npy() {
  return npy_file("<f4", true, "(2, 3)", floats_as_bytes({0, 1, 2, 3, 4, 5}));
}

std::string valid_npz() {
  return zip_file({{"a.npy", npy_file("<f4", false, "(2,)", floats_as_bytes({1, 2}))},
                   {"b.npy", npy_file("<i8", false, "()", little_endian<std::int64_t>(7)), true}});
}

std::string valid_pickle() {
  TorchTensor plain{.elements = 6, .shape = {2, 3}, .strides = {3, 1}};
  TorchTensor turned{.elements = 6, .shape = {3, 2}, .strides = {1, 3}};
  return pickled_dict({{"w", pickled(plain)},
                       {"v", pickled(turned)},
                       {"n_layer", pickled(std::int32_t{2})},
                       {"bias", "\x88"},
                       {"names", "](" + pickled("x") + "N" + pickled("y") + "e"}});
}

std::string valid_torch() {
  return torch_file(valid_pickle(), {floats_as_bytes({0, 1, 2, 3, 4, 5})});
}

std::string valid_toml() {
  return "# a run\nlearning_rate = 1e-3\n[train]\nmax_iters = 20\ndata = [\"a.txt\", 'b.txt']\n"
         "out_dir = \"run\"\nbias = true\n";
}

std::string valid_metrics() {
  return "{\"iter\":5,\"loss\":2.5,\"lr\":0.001,\"grad_norm\":1.5,\"elapsed\":0.25,"
         "\"val_loss\":2.75}\n{\"iter\":5,\"watch\":{\"loss\":2.5,\"grad_norm\":1.5,\"layers\":"
         "[{\"rms\":1,\"spread\":1,\"largest\":2,\"zeros\":0,\"max_score\":3,\"grad_norm\":1}]}}\n"
         "{\"iter\":6,\"non_finite\":{\"pass\":\"forward\",\"layer\":0,\"stage\":\"h.0\","
         "\"value\":\"inf\",\"frames\":[{\"iter\":5,\"loss\":null,\"grad_norm\":1,\"layers\":[]}]}}"
         "\n";
}

Files valid_index() {
  const std::vector<float> values = {1, 2};
  return {
      {"model.safetensors.index.json",
       R"({"metadata":{"total_size":12},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"},
      {"1.safetensors", serialize_safetensors({tensor("a", {1}, std::span(values).first(1))})},
      {"2.safetensors", serialize_safetensors({tensor("b", {2}, std::span(values))})}};
}

Files valid_model() {
  const TemporaryFolder folder("valid-model");
  ByteTokenizer().save(folder.path());
  return {{"config.json", config_text(small_config())},
          {"generation_config.json", generation_config_text(small_config())},
          {"model.safetensors", gpt_weights()},
          {"tokenizer.json", read_file(folder.path() / "tokenizer.json")},
          {"tokenizer_config.json", read_file(folder.path() / "tokenizer_config.json")}};
}

Files valid_bpe() { return {{"tokenizer.json", dump_json(tokenizer_json_of(small_bpe()))}}; }

Files valid_gpt2_tokenizer() {
  const BpeModel model = small_bpe();
  Json vocab = Json::object();
  for (std::size_t id = 0; id < model.tokens.size(); ++id) vocab[model.tokens[id]] = id;
  std::string merges = "#version: 0.2\n";
  for (const BpeMerge& m : model.merges) {
    merges += model.tokens[static_cast<std::size_t>(m.left)] + " " +
              model.tokens[static_cast<std::size_t>(m.right)] + "\n";
  }
  return {{"vocab.json", dump_json(vocab)}, {"merges.txt", merges}};
}

Files valid_wordpiece() {
  return {{"tokenizer.json", dump_json(wordpiece_json_of(small_wordpiece()))}};
}

Files valid_vocabulary() {
  std::string lines;
  for (const std::string& token : small_wordpiece().tokens) lines += token + "\n";
  return {{"vocab.txt", lines}};
}

Files valid_encoder() {
  Files files = valid_wordpiece();
  files["config.json"] = kBertConfig;
  files["model.safetensors"] = bert_weights();
  const std::string type = R"("type":"sentence_transformers.models.)";
  files["modules.json"] = R"([{"path":"",)" + type + R"(Transformer"},{"path":"1_Pooling",)" +
                          type + R"(Pooling"},{"path":"2_Normalize",)" + type + R"(Normalize"}])";
  files["1_Pooling/config.json"] = R"({"pooling_mode_mean_tokens":true})";
  files["sentence_bert_config.json"] = R"({"max_seq_length":12,"do_lower_case":false})";
  return files;
}

std::string gpt_config_with(const std::string& key, const std::string& value) {
  return json_with(config_text(small_config()), key, value);
}

std::string bert_config_with(const std::string& key, const std::string& value) {
  return json_with(kBertConfig, key, value);
}

}  // namespace prenorm::hostile
