#include "prenorm/model/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/model/checkpoint.h"
#include "tests/config_of.h"
#include "tests/formats/torch_bytes.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

GptConfig tiny() { return config_of(2, 2, 4, 5, 7); }

class ModelSourceOf : public testing::Test {
 protected:
  ModelSourceOf() : model_(tiny()) {
    model_.initialize(1);
    float next = 0.25f;
    for (Parameter& p : model_.parameters()) {
      for (float& x : p.value) x += next += 0.125f;
    }
  }

  // The model's parameters as nanoGPT and minGPT name them, matrices [out, in].
  std::vector<std::pair<std::string, std::string>> items(const std::string& prefix) {
    std::vector<std::pair<std::string, std::string>> out;
    storages_.clear();
    for (const Parameter& p : model_.parameters()) {
      const auto rows = static_cast<int>(p.shape[0]);
      const int columns = p.shape.size() == 2 ? static_cast<int>(p.shape[1]) : 1;
      TorchTensor t{"FloatStorage", std::to_string(storages_.size()), rows * columns, 0, {}, {}};
      const bool turned = p.shape.size() == 2 && p.name.find(".h.") != std::string::npos;
      t.shape = turned                ? std::vector{columns, rows}
                : p.shape.size() == 2 ? std::vector{rows, columns}
                                      : std::vector{rows};
      t.strides = turned                ? std::vector{1, columns}
                  : p.shape.size() == 2 ? std::vector{columns, 1}
                                        : std::vector{1};
      out.emplace_back(prefix + p.name, pickled(t));
      if (p.name == "transformer.wte.weight")
        out.emplace_back(prefix + "lm_head.weight", pickled(t));
      storages_.push_back(floats_as_bytes({p.value.begin(), p.value.end()}));
    }
    return out;
  }
  std::string arguments(int heads) const {
    return pickled_dict({{"n_layer", pickled(2)},
                         {"n_head", pickled(heads)},
                         {"n_embd", pickled(4)},
                         {"block_size", pickled(5)},
                         {"bias", "\x88"},
                         {"vocab_size", pickled(7)},
                         {"dropout", std::string("G\x3f\xc0\0\0\0\0\0\0", 9)}});
  }
  void write(const std::string& value) { write_file_durably(file_, torch_file(value, storages_)); }
  void expect_same_weights(const ModelSource& source) {
    const auto loaded = model_from_weights(source.config, source.weights, Gpt::Mode::kInference);
    for (const Parameter& p : model_.parameters()) {
      const Parameter* q = loaded->parameters().find(p.name);
      ASSERT_NE(q, nullptr) << p.name;
      ASSERT_EQ(p.shape, q->shape) << p.name;
      EXPECT_EQ(std::memcmp(p.value.data(), q->value.data(), p.value.size_bytes()), 0) << p.name;
    }
  }

  TemporaryFolder folder_{"model-source"};
  std::filesystem::path file_ = folder_.path() / "ckpt.pt";
  Gpt model_;
  std::vector<std::string> storages_;
};

TEST_F(ModelSourceOf, nanogpt_gives_its_config_and_its_weights_transposed) {
  for (const char* prefix : {"", "_orig_mod.", "module._orig_mod."}) {
    write(pickled_dict({{"model", pickled_dict(items(prefix))}, {"model_args", arguments(2)}}));
    const ModelSource source = read_model_source(file_);
    EXPECT_EQ(source.config.n_head, 2);
    EXPECT_EQ(source.config.activation, Activation::kGelu);
    EXPECT_TRUE(source.config.tie_word_embeddings);
    EXPECT_DOUBLE_EQ(source.config.resid_pdrop, 0.125);
    EXPECT_EQ(source.folder, folder_.path());
    expect_same_weights(source);
  }
  const ModelSource told =
      read_model_source(file_, {.n_head = {}, .activation = Activation::kRelu});
  EXPECT_EQ(told.config.activation, Activation::kRelu);
}

TEST_F(ModelSourceOf, nanogpt_s_arguments_are_checked) {
  write(pickled_dict({{"model", pickled_dict(items(""))}, {"model_args", arguments(3)}}));
  EXPECT_THAT([&] { read_model_source(file_); },
              ThrowsMessage<FormatError>(HasSubstr("ckpt.pt: n_head")));
  write(pickled_dict({{"model", pickled_dict(items(""))},
                      {"model_args", pickled_dict({{"n_layer", pickled(2)}})}}));
  EXPECT_THAT([&] { read_model_source(file_); },
              ThrowsMessage<FormatError>(
                  HasSubstr("model_args.n_head: expected a whole number, found none")));
  write(pickled_dict({{"model", pickled_dict({})}, {"model_args", arguments(2)}}));
  EXPECT_THAT([&] { read_model_source(file_); },
              ThrowsMessage<FormatError>(HasSubstr("'transformer.h.0.attn.c_attn.weight'")));
}

TEST_F(ModelSourceOf, a_state_dict_alone_tells_all_but_the_heads) {
  write(pickled_dict(items("")));
  EXPECT_THAT([&] { read_model_source(file_); },
              ThrowsMessage<ConfigError>(HasSubstr("--n-head: expected the number of heads")));
  const ModelSource source = read_model_source(file_, {.n_head = 2, .activation = {}});
  EXPECT_EQ(source.config.activation, Activation::kGeluTanh);
  EXPECT_TRUE(source.config.tie_word_embeddings);
  expect_same_weights(source);
  // minGPT writes the config of a run beside its model.
  write_file_durably(folder_.path() / "config.json", R"({"system": {}, "model": {"n_head": 1}})");
  EXPECT_EQ(read_model_source(file_).config.n_head, 1);
}

TEST_F(ModelSourceOf, a_folder_is_read_as_its_config_says) {
  save_pretrained(model_, folder_.path() / "run");
  const ModelSource source = read_model_source(folder_.path() / "run");
  EXPECT_EQ(source.folder, folder_.path() / "run");
  expect_same_weights(source);
  std::filesystem::rename(folder_.path() / "run" / "model.safetensors",
                          folder_.path() / "run" / "part.safetensors");
  EXPECT_THAT([&] { read_weights(folder_.path() / "run"); },
              ThrowsMessage<IoError>(HasSubstr("model.safetensors")));
}

TEST(FullParameterName, has_the_prefix_but_for_the_head) {
  EXPECT_EQ(full_parameter_name("wte.weight"), "transformer.wte.weight");
  EXPECT_EQ(full_parameter_name("transformer.wte.weight"), "transformer.wte.weight");
  EXPECT_EQ(full_parameter_name("lm_head.weight"), "lm_head.weight");
}

}  // namespace
}  // namespace prenorm
