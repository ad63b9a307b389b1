#include "prenorm/model/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/formats/torch_file.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/config_json.h"
#include "tests/config_of.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Convert : public testing::Test {
 protected:
  static GptConfig tiny() { return config_of(2, 2, 4, 5, 7); }
  void save(const GptConfig& config) {
    Gpt model(config);
    model.initialize(3);
    save_pretrained(model, in_);
  }
  static std::string weights(const std::filesystem::path& folder) {
    return read_file(folder / "model.safetensors");
  }

  TemporaryFolder folder_{"convert"};
  std::filesystem::path in_ = folder_.path() / "in", out_ = folder_.path() / "out",
                        back_ = folder_.path() / "back";
};

TEST_F(Convert, a_folder_to_nanogpt_and_back_is_the_same_to_the_byte) {
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
    for (const bool bias : {true, false}) {
      GptConfig config = tiny();
      config.bias = bias;
      config.activation = activation;
      save(config);
      write_file_durably(in_ / "tokenizer.json", "{}");
      const auto notices =
          convert_model(in_, out_, {.layout = WeightLayout::kNanoGpt, .dtype = {}, .hints = {}});
      EXPECT_EQ(notices.size(), activation == Activation::kGelu ? 0u : 1u);
      EXPECT_EQ(read_file(out_ / "tokenizer.json"), "{}");
      convert_model(out_ / "ckpt.pt", back_, {});
      EXPECT_EQ(weights(back_), weights(in_));
      EXPECT_EQ(read_file(back_ / "config.json"), read_file(in_ / "config.json"));
    }
  }
}

TEST_F(Convert, a_folder_converted_to_itself_or_twice_keeps_its_bytes) {
  save(tiny());
  const std::string before = weights(in_);
  convert_model(in_, in_, {});
  EXPECT_EQ(weights(in_), before);
  convert_model(in_, out_, {.layout = WeightLayout::kHf, .dtype = Dtype::kBF16, .hints = {}});
  convert_model(out_, back_, {});
  EXPECT_EQ(weights(back_), weights(out_));
  EXPECT_THAT(read_file(out_ / "config.json"), HasSubstr("\"dtype\": \"bfloat16\""));
  EXPECT_NE(weights(out_), before);
}

TEST_F(Convert, torch_s_names_and_shapes_are_those_of_its_encoder) {
  save(tiny());
  convert_model(in_, out_, {.layout = WeightLayout::kTorch, .dtype = {}, .hints = {}});
  const TorchFile file(out_ / "model.pt");
  std::map<std::string, std::string> shapes;
  for (const Tensor& t : file.tensors()) shapes[t.name] = shape_text(t.shape);
  EXPECT_EQ(shapes.size(), 2u * 12 + 4);
  EXPECT_EQ(shapes["layers.1.self_attn.in_proj_weight"], "[12, 4]");
  EXPECT_EQ(shapes["layers.1.self_attn.in_proj_bias"], "[12]");
  EXPECT_EQ(shapes["layers.0.self_attn.out_proj.weight"], "[4, 4]");
  EXPECT_EQ(shapes["layers.0.linear1.weight"], "[16, 4]");
  EXPECT_EQ(shapes["layers.0.linear2.weight"], "[4, 16]");
  EXPECT_EQ(shapes["layers.0.norm2.bias"], "[4]");
  EXPECT_EQ(shapes["norm.weight"], "[4]");
  EXPECT_EQ(shapes["wte.weight"], "[7, 4]");
}

TEST_F(Convert, what_nanogpt_cannot_say_is_refused) {
  GptConfig config = tiny();
  config.tie_word_embeddings = false;
  save(config);
  EXPECT_THAT(
      [&] {
        convert_model(in_, out_, {.layout = WeightLayout::kNanoGpt, .dtype = {}, .hints = {}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("a tied head, as nanoGPT's is, found an untied one")));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(Convert, numbers_that_a_type_cannot_hold_are_told) {
  Gpt model(tiny());
  model.initialize(3);
  model.parameters().begin()->value[2] = 1e5f;  // of halves the largest is 65504
  save_pretrained(model, in_);
  EXPECT_THAT(convert_model(in_, out_, {.layout = {}, .dtype = Dtype::kF16, .hints = {}}),
              testing::ElementsAre(HasSubstr("1 of 28 numbers are too large for float16")));
  EXPECT_TRUE(convert_model(in_, out_, {.layout = {}, .dtype = Dtype::kBF16, .hints = {}}).empty());
}

TEST_F(Convert, layouts_have_names) {
  EXPECT_EQ(weight_layout_from_name("hf"), WeightLayout::kHf);
  EXPECT_EQ(weight_layout_from_name("nanogpt"), WeightLayout::kNanoGpt);
  EXPECT_EQ(weight_layout_from_name("torch"), WeightLayout::kTorch);
  EXPECT_EQ(weight_layout_from_name("jax"), std::nullopt);
}

}  // namespace
}  // namespace prenorm
