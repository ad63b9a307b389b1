#include "prenorm/model/bert_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/formats/safetensors.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using testing::HasSubstr;

constexpr const char* kConfig = R"({"model_type": "bert", "vocab_size": 5, "hidden_size": 4,
  "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 3,
  "max_position_embeddings": 6, "type_vocab_size": 2})";

// A checkpoint whose elements are numbered through.
class Checkpoint {
 public:
  Checkpoint() {
    const std::string layer = "encoder.layer.0.";
    add("embeddings.word_embeddings.weight", {5, 4});
    add("embeddings.position_embeddings.weight", {6, 4});
    add("embeddings.token_type_embeddings.weight", {2, 4});
    add_norm("embeddings.LayerNorm");
    for (const char* part : {"query", "key", "value"}) {
      add_linear(layer + "attention.self." + part, 4, 4);
    }
    add_linear(layer + "attention.output.dense", 4, 4);
    add_norm(layer + "attention.output.LayerNorm");
    add_linear(layer + "intermediate.dense", 3, 4);
    add_linear(layer + "output.dense", 4, 3);
    add_norm(layer + "output.LayerNorm");
  }

  void add(const std::string& name, std::vector<Index> shape) {
    Index size = 1;
    for (const Index n : shape) size *= n;
    std::vector<float>& values = memory_.emplace_back();
    for (Index i = 0; i < size; ++i) values.push_back(static_cast<float>(next_++));
    tensors.push_back(tensor(name, std::move(shape), std::span<const float>(values)));
  }
  void add_linear(const std::string& name, Index out, Index in) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }
  Tensor& at(const std::string& name) { return *std::ranges::find(tensors, name, &Tensor::name); }

  std::unique_ptr<Bert> load() const {
    const TemporaryFolder folder("bert");
    write_file_durably(folder.path() / "config.json", kConfig);
    save_safetensors(folder.path() / "model.safetensors", tensors);
    return load_bert(folder.path());
  }
  std::string refusal() const {
    try {
      load();
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  }

  std::vector<Tensor> tensors;

 private:
  void add_norm(const std::string& name) {
    add(name + ".weight", {4});
    add(name + ".bias", {4});
  }
  std::deque<std::vector<float>> memory_;
  int next_ = 0;
};

std::vector<float> values(const Bert& model) {
  return {model.parameters().values().begin(), model.parameters().values().end()};
}

TEST(BertCheckpoint, separate_queries_keys_and_values_are_packed_and_transposed) {
  Checkpoint file;
  const auto model = file.load();
  EXPECT_FALSE(model->config().add_pooling_layer);
  const auto at = [&](const std::string& name, std::size_t i) {
    return reinterpret_cast<const float*>(file.at("encoder.layer.0." + name).bytes.data())[i];
  };
  const ConstMatrix c_attn =
      model->parameters().find("encoder.layer.0.attn.c_attn.weight")->matrix();
  ASSERT_EQ(c_attn.dim(1), 12);
  EXPECT_EQ(c_attn[1][2], at("attention.self.query.weight", 2 * 4 + 1));
  EXPECT_EQ(c_attn[3][4], at("attention.self.key.weight", 3));
  EXPECT_EQ(c_attn[0][11], at("attention.self.value.weight", 3 * 4));
  const ConstVector bias = model->parameters().find("encoder.layer.0.attn.c_attn.bias")->vector();
  EXPECT_EQ(bias[5], at("attention.self.key.bias", 1));
  const ConstMatrix c_fc = model->parameters().find("encoder.layer.0.mlp.c_fc.weight")->matrix();
  EXPECT_EQ(c_fc[3][1], at("intermediate.dense.weight", 1 * 4 + 3));
  EXPECT_EQ(model->parameters().find("encoder.layer.0.ln_2.weight")->value[2],
            at("output.LayerNorm.weight", 2));
}

TEST(BertCheckpoint, names_with_the_prefix_old_names_and_heads_load_to_the_same_model) {
  const std::vector<float> plain = values(*Checkpoint().load());
  Checkpoint file;
  for (Tensor& t : file.tensors) {
    for (const auto& [current, old] : {std::pair(std::string("LayerNorm.weight"), ".gamma"),
                                       std::pair(std::string("LayerNorm.bias"), ".beta")}) {
      if (t.name.ends_with(current)) t.name.replace(t.name.size() - current.size() + 9, 9, old);
    }
    t.name = "bert." + t.name;
  }
  file.add("cls.predictions.bias", {5});
  file.add("classifier.weight", {2, 4});
  file.add("bert.embeddings.position_ids", {1, 6});
  EXPECT_EQ(values(*file.load()), plain);
}

TEST(BertCheckpoint, a_pooler_is_taken_where_there_is_one) {
  Checkpoint file;
  file.add_linear("pooler.dense", 4, 4);
  EXPECT_TRUE(file.load()->config().add_pooling_layer);
  file.tensors.pop_back();
  EXPECT_THAT(file.refusal(), HasSubstr("missing: pooler.dense.bias"));
}

TEST(BertCheckpoint, all_misfits_are_listed) {
  Checkpoint file;
  file.at("encoder.layer.0.output.dense.weight").name = "encoder.layer.0.output.dens.weight";
  file.at("embeddings.position_embeddings.weight").shape = {4, 6};
  const std::string message = file.refusal();
  EXPECT_THAT(message, HasSubstr("1 missing, 1 unexpected, 1 of another shape"));
  EXPECT_THAT(message, HasSubstr("missing: encoder.layer.0.output.dense.weight"));
  EXPECT_THAT(message, HasSubstr("unexpected: encoder.layer.0.output.dens.weight"));
  EXPECT_THAT(message, HasSubstr("position_embeddings.weight: expected [6, 4], found [4, 6]"));
}

TEST(BertCheckpoint, a_folder_that_is_none_and_a_tensor_with_both_names_are_refused) {
  EXPECT_THROW(load_bert("/nowhere/at/all"), IoError);
  Checkpoint file;
  file.add("bert.embeddings.word_embeddings.weight", {5, 4});
  EXPECT_THAT(file.refusal(), HasSubstr("with or without 'bert.'"));
}

}  // namespace
}  // namespace prenorm
