// The textbook, in double, against the right answers of public bug reports. They are float64
// values, so the textbook must meet them far within the tolerance that is given for float32.
#include <map>

#include "prenorm/formats/safetensors.h"
#include "prenorm/reference/gpt.h"
#include "tests/reference/cases.h"
#include "tests/reference/values.h"
#include "tests/tolerances.h"

namespace prenorm::reference {
namespace {

constexpr double kTolerance = tolerance::kRecordedDouble;

class Cases : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(cases_folder() / "cases.jsonl")) {
      GTEST_SKIP() << "no shared/cases beside the project";
    }
  }
  // The cases of an operation; there must be some.
  static std::vector<Json> cases(const std::string& op) {
    const std::vector<Json> found = read_cases(op);
    EXPECT_FALSE(found.empty()) << op;
    return found;
  }
};

LayerNormParameters<double> norm_parameters(const Json& input) {
  return {json_tensor(input, "weight"), json_tensor(input, "bias")};
}

TEST_F(Cases, layer_norm) {
  for (const Json& c : cases("layer_norm")) {
    const Json &input = c.at("input"), &expected = c.at("expected");
    const LayerNormOptions options{.eps = input.at("eps").get<double>()};
    if (input.contains("x_shape")) {
      const Tensor<double> empty(input.at("x_shape").get<std::vector<Index>>());
      EXPECT_EQ(layer_norm(empty, {}, options).shape(), empty.shape());
      continue;
    }
    const bool floats = input.value("dtype", "") == "float32";
    const Tensor<double> x =
        rounded(json_tensor(input, "x"), floats ? Numbers::kFloat32 : Numbers::kExact);
    const Tensor<double> y = layer_norm(x, norm_parameters(input), options);
    if (expected.contains("y")) expect_near(y, expected.at("y"), kTolerance, c.at("id"));
    if (expected.contains("row2")) {  // rows that are not finite keep to themselves
      const std::vector<double> finite = expected.at("row2").get<std::vector<double>>();
      for (Index i = 0; i < 4; ++i) {
        EXPECT_TRUE(std::isnan(y(0, i)) && std::isnan(y(1, i)));
        EXPECT_NEAR(y(2, i), finite[static_cast<std::size_t>(i)], kTolerance);
      }
    }
  }
}

TEST_F(Cases, layer_norm_fwd_bwd) {
  for (const Json& c : cases("layer_norm_fwd_bwd")) {
    const Json &input = c.at("input"), &expected = c.at("expected");
    const LayerNormOptions options{.eps = input.at("eps").get<double>()};
    const Tensor<double> x = json_tensor(input, "x");
    const LayerNormParameters<double> p = norm_parameters(input);
    const auto d = layer_norm_backward(json_tensor(input, "dy"), x, p, options);
    expect_near(layer_norm(x, p, options), expected.at("y"), kTolerance, c.at("id"));
    expect_near(d.dx, expected.at("dx"), kTolerance, c.at("id"));
    expect_near(d.dparameters.weight, expected.at("dweight"), kTolerance, c.at("id"));
    expect_near(d.dparameters.bias, expected.at("dbias"), kTolerance, c.at("id"));
  }
}

void expect_activation(const Json& x, Activation kind, const Json& expected, const Json& id) {
  const Tensor<double> in = json_tensor(x);
  const Tensor<double> ones = Tensor<double>::filled(in.shape(), 1.0);
  expect_near(activation(in, {.kind = kind}), expected.at("y"), kTolerance, id);
  expect_near(activation_backward(ones, in, {.kind = kind}), expected.at("dx"), kTolerance, id);
}

TEST_F(Cases, gelu) {
  for (const Json& c : cases("gelu")) {
    const Json &x = c.at("input").at("x"), &expected = c.at("expected");
    expect_activation(x, Activation::kGelu, expected.at("erf"), c.at("id"));
    expect_activation(x, Activation::kGeluTanh, expected.at("tanh"), c.at("id"));
    expect_activation(x, Activation::kGeluQuick, expected.at("quick_sigmoid_1.702"), c.at("id"));
  }
  for (const Json& c : cases("gelu_tanh")) {
    expect_activation(c.at("input").at("x"), Activation::kGeluTanh, c.at("expected"), c.at("id"));
  }
  for (const Json& c : cases("gelu_fwd_bwd")) {
    const Json &x = c.at("input").at("x"), &expected = c.at("expected");
    expect_activation(x, Activation::kGelu, expected.at("erf"), c.at("id"));
    expect_activation(x, Activation::kGeluTanh, expected.at("tanh"), c.at("id"));
  }
}

TEST_F(Cases, softmax) {
  for (const Json& c : cases("softmax")) {
    expect_near(softmax(json_tensor(c.at("input"), "x")), c.at("expected").at("y"), kTolerance,
                c.at("id"));
  }
}

TEST_F(Cases, causal_sdpa) {
  for (const Json& c : cases("causal_sdpa")) {
    const Json &input = c.at("input"), &expected = c.at("expected");
    AttentionOptions options;
    if (input.contains("scale")) options.scale = input.at("scale").get<double>();
    const Tensor<double> y = scaled_dot_product_attention(
        json_tensor(input, "q"), json_tensor(input, "k"), json_tensor(input, "v"), options);
    const char* key = expected.contains("y") ? "y" : "y_decode_bottom_right";
    expect_near(y, expected.at(key), kTolerance, c.at("id"));
  }
}

TEST_F(Cases, causal_sdpa_generated) {
  for (const Json& c : cases("causal_sdpa_generated")) {
    for (const Json& row : c.at("expected").at("results")) {
      const std::vector<Index> shape{row.at("T").get<Index>(), row.at("head_dim").get<Index>()};
      const Tensor<double> y =
          scaled_dot_product_attention(val(1300, shape), val(1301, shape), val(1302, shape));
      double sum = 0.0, sizes = 0.0;
      for (const double element : y) sum += element, sizes += std::abs(element);
      EXPECT_NEAR(sum, row.at("sum").get<double>(), kTolerance);
      EXPECT_NEAR(sizes, row.at("abs_sum").get<double>(), kTolerance);
    }
  }
}

// A mask of the functional kind, 1 where attention is allowed.
AttentionMask allowed_mask(const Json& allowed) {
  AttentionMask mask;
  mask.blocked = cast<unsigned char>(json_tensor(allowed));
  for (unsigned char& element : mask.blocked) element = element != 0 ? 0 : 1;
  return mask;
}

TEST_F(Cases, sdpa_with_masks) {
  for (const char* op : {"sdpa", "sdpa_fwd_bwd"}) {
    for (const Json& c : cases(op)) {
      const Json &input = c.at("input"), &expected = c.at("expected");
      const Tensor<double> q = json_tensor(input, "q"), k = json_tensor(input, "k"),
                           v = json_tensor(input, "v");
      const AttentionMask mask = allowed_mask(input.at("mask_allowed"));
      const AttentionOptions options{.causal = false};
      expect_near(scaled_dot_product_attention(q, k, v, options, mask), expected.at("y"),
                  kTolerance, c.at("id"));
      if (!expected.contains("dq")) continue;
      const Tensor<double> ones = Tensor<double>::filled(v.shape(), 1.0);
      const auto d = scaled_dot_product_attention_backward(ones, q, k, v, options, mask);
      expect_near(d.dq, expected.at("dq"), kTolerance, c.at("id"));
      expect_near(d.dk, expected.at("dk"), kTolerance, c.at("id"));
      expect_near(d.dv, expected.at("dv"), kTolerance, c.at("id"));
    }
  }
}

// [out, in] matrices stacked above one another, as one [in, out].
Tensor<double> stacked(const std::vector<Json>& matrices) {
  std::vector<double> values;
  for (const Json& matrix : matrices) json_values(matrix, values);
  const Index in = static_cast<Index>(matrices[0][0].size());
  const Index out = static_cast<Index>(values.size()) / in;
  return transposed(Tensor<double>({out, in}, values));
}

TEST_F(Cases, causal_mha) {
  for (const Json& c : cases("causal_mha")) {
    const Json& input = c.at("input");
    if (!input.contains("x")) continue;  // empty inputs and properties: attention_test.cc
    MultiheadAttentionOptions options;
    options.core.heads = input.at("n_head").get<Index>();
    const AttentionParameters<double> p{
        {stacked({input.at("Wq"), input.at("Wk"), input.at("Wv")}), {}},
        {stacked({input.at("Wo")}), {}}};
    expect_near(multihead_attention(json_tensor(input, "x"), p, options), c.at("expected").at("y"),
                kTolerance, c.at("id"));
  }
  for (const Json& c : cases("causal_mha_packed")) {
    const Json& input = c.at("input");
    MultiheadAttentionOptions options;
    options.core.heads = input.at("n_head").get<Index>();
    const AttentionParameters<double> p{
        {stacked({input.at("in_proj_weight")}), json_tensor(input, "in_proj_bias")},
        {stacked({input.at("out_proj_weight")}), json_tensor(input, "out_proj_bias")}};
    expect_near(multihead_attention(json_tensor(input, "x"), p, options), c.at("expected").at("y"),
                kTolerance, c.at("id"));
  }
}

TEST_F(Cases, cross_entropy) {
  for (const Json& c : cases("cross_entropy_fwd_bwd")) {
    const Json &input = c.at("input"), &expected = c.at("expected");
    if (input.contains("label_smoothing")) continue;  // not a feature
    const TokenId ignore = input.value("ignore_index", TokenId{-100});
    const Tokens targets = cast<TokenId>(json_tensor(input, "targets"));
    const Tensor<double> logits = json_tensor(input, "logits");
    const double count = static_cast<double>(count_targets(targets, ignore));
    double sum = 0.0;
    for (const double loss : cross_entropy(logits, targets, ignore)) sum += loss;
    EXPECT_NEAR(sum / count, expected.at("loss").get<double>(), kTolerance) << c.at("id");
    expect_near(cross_entropy_backward(logits, targets, 1.0 / count, ignore),
                expected.at("dlogits"), kTolerance, c.at("id"));
  }
  for (const Json& c : cases("cross_entropy")) {
    const Json &input = c.at("input"), &expected = c.at("expected");
    const Tokens targets = cast<TokenId>(json_tensor(input, "targets"));
    if (expected.contains("error")) {
      const Tensor<double> logits(input.at("logits_shape").get<std::vector<Index>>());
      EXPECT_THROW(cross_entropy(logits, targets), DataError);
      continue;
    }
    const TokenId ignore = input.value("ignore_index", TokenId{-100});
    const Tensor<double> logits = json_tensor(input, "logits");
    double sum = 0.0;
    for (const double loss : cross_entropy(logits, targets, ignore)) sum += loss;
    const Index count = count_targets(targets, ignore);
    if (count == 0) {
      EXPECT_EQ(sum, 0.0);  // nothing to learn from costs nothing
    } else {
      EXPECT_NEAR(sum / static_cast<double>(count), expected.at("loss").get<double>(), kTolerance);
      EXPECT_THROW(cross_entropy(logits, targets), DataError);
    }
  }
}

// torch.nn.TransformerEncoderLayer's parameters, [out, in], and which of ours each one is.
const std::map<std::string, std::string> kTorchNames{
    {"ln_1.weight", "norm1.weight"},
    {"ln_1.bias", "norm1.bias"},
    {"attn.c_attn.weight", "self_attn.in_proj_weight"},
    {"attn.c_attn.bias", "self_attn.in_proj_bias"},
    {"attn.c_proj.weight", "self_attn.out_proj.weight"},
    {"attn.c_proj.bias", "self_attn.out_proj.bias"},
    {"ln_2.weight", "norm2.weight"},
    {"ln_2.bias", "norm2.bias"},
    {"mlp.c_fc.weight", "linear1.weight"},
    {"mlp.c_fc.bias", "linear1.bias"},
    {"mlp.c_proj.weight", "linear2.weight"},
    {"mlp.c_proj.bias", "linear2.bias"}};

BlockParameters<double> torch_block(const Json& params) {
  BlockParameters<double> p;
  for_each_block_parameter(p, "", [&](const std::string& name, Tensor<double>& tensor) {
    tensor = json_tensor(params, kTorchNames.at(name).c_str());
    if (tensor.rank() == 2) tensor = transposed(tensor);
  });
  return p;
}

BlockOptions torch_options(const Json& input, NormPlacement norm) {
  const std::map<std::string, Activation> kinds{{"relu", Activation::kRelu},
                                                {"gelu", Activation::kGelu}};
  BlockOptions options = gpt_options({.n_head = input.at("n_head").get<Index>(),
                                      .norm = norm,
                                      .activation = kinds.at(input.at("activation")),
                                      .eps = input.value("eps", 1e-5)})
                             .h[0];
  options.attn.core.causal = input.at("causal").get<bool>();
  return options;
}

TEST_F(Cases, transformer_block_fwd_bwd) {
  for (const Json& c : cases("transformer_block_fwd_bwd")) {
    const Json &input = c.at("input"), &expected = c.at("expected");
    const bool pre = input.at("norm") == "pre";
    const BlockOptions options =
        torch_options(input, pre ? NormPlacement::kPre : NormPlacement::kPost);
    const BlockParameters<double> p = torch_block(input.at("params"));
    const Tensor<double> x = json_tensor(input, "x");
    expect_near(transformer_block(x, p, options), expected.at("y"), kTolerance, c.at("id"));
    const auto d = transformer_block_backward(json_tensor(input, "dy"), x, p, options);
    expect_near(d.dx, expected.at("dx"), kTolerance, c.at("id"));
    for_each_block_parameter(
        d.dparameters, "", [&](const std::string& name, const Tensor<double>& gradient) {
          if (gradient.absent()) return;
          const Json& want = expected.at("param_grads").at(kTorchNames.at(name));
          const bool matrix = gradient.rank() == 2;
          expect_near(matrix ? transposed(gradient) : gradient, want, kTolerance,
                      c.at("id").get<std::string>() + " " + name);
        });
  }
}

TEST_F(Cases, post_norm_stack) {
  for (const Json& c : cases("post_norm_stack")) {
    const Json &input = c.at("input"), &expected = c.at("expected");
    const BlockOptions options = torch_options(input, NormPlacement::kPost);
    const Tensor<double> y =
        transformer_block(json_tensor(input, "x"), torch_block(input.at("params")), options);
    expect_near(y, expected.at("y_without_final_norm"), kTolerance, c.at("id"));
    const Json& final_norm = expected.at("y_if_final_norm_given");
    expect_near(layer_norm(y, norm_parameters(final_norm)), final_norm.at("y"), kTolerance,
                c.at("id"));
  }
}

TEST_F(Cases, gpt_forward) {
  for (const Json& c : cases("gpt_forward")) {
    const Tokens a({1, 4}, c.at("input").at("tokens_a").get<std::vector<TokenId>>());
    const Tokens b({1, 4}, c.at("input").at("tokens_b").get<std::vector<TokenId>>());
    const Tensor<double> logits_a = gpt(a, tiny_parameters(), tiny_options());
    const Tensor<double> logits_b = gpt(b, tiny_parameters(), tiny_options());
    for (Index t = 0; t < 4; ++t) {
      for (Index v = 0; v < kVocabulary; ++v) {
        EXPECT_EQ(logits_a(t, v) == logits_b(t, v), t < 3) << t;
      }
    }
  }
}

struct Model {
  GptParameters<double> parameters;
  GptOptions options;
};

// A folder as transformers saves it, with or without the prefix "transformer.".
Model load_model(const std::filesystem::path& folder) {
  std::ifstream file(folder / "config.json");
  const Json config = Json::parse(file);
  const std::map<std::string, Activation> kinds{{"relu", Activation::kRelu},
                                                {"gelu", Activation::kGelu},
                                                {"gelu_new", Activation::kGeluTanh}};
  const GptSettings settings{.n_layer = config.at("n_layer").get<Index>(),
                             .n_head = config.at("n_head").get<Index>(),
                             .activation = kinds.at(config.at("activation_function")),
                             .eps = config.at("layer_norm_epsilon").get<double>(),
                             .tied = config.at("tie_word_embeddings").get<bool>()};
  ParameterMap<double> map;
  const Safetensors weights(folder / "model.safetensors");
  for (const prenorm::Tensor& tensor : weights.tensors()) {
    if (tensor.name.ends_with(".attn.bias") || tensor.name.ends_with("masked_bias")) continue;
    const bool full = tensor.name.starts_with("transformer.") || tensor.name == "lm_head.weight";
    std::vector<double> values(static_cast<std::size_t>(tensor.size()));
    weights.read(tensor, values);
    map[(full ? "" : "transformer.") + tensor.name] = Tensor<double>(tensor.shape, values);
  }
  return {from_map(map, settings.n_layer), gpt_options(settings)};
}

// The ids as a batch; one flat list is a batch of one.
Tokens batch_of(const Json& ids) {
  const std::vector<TokenId> values = ids.get<std::vector<TokenId>>();
  return Tokens({1, static_cast<Index>(values.size())}, values);
}

Json without_first(Json ids) {
  ids.erase(0);
  return ids;
}

Tensor<double> last_row(const Tensor<double>& x) {
  return Tensor<double>({1, x.columns()}, {x.end() - x.columns(), x.end()});
}

TEST_F(Cases, hf_gpt2_logits) {
  for (const Json& c : cases("hf_gpt2_logits")) {
    const Json &input = c.at("input"), &expected = c.at("expected");
    const Json folders = input.contains("model_dirs") ? input.at("model_dirs")
                                                      : Json::array({input.at("model_dir")});
    const Json& ids = input.at("input_ids");
    for (const Json& folder : folders) {
      const Model model = load_model(cases_folder() / folder.get<std::string>());
      const auto logits = [&](const Tokens& tokens) {
        return gpt(tokens, model.parameters, model.options);
      };
      if (expected.contains("error")) {
        for (const Json& bad : ids) EXPECT_THROW(logits(batch_of(bad)), DataError);
      } else if (expected.contains("behaviour")) {
        EXPECT_THROW(logits(batch_of(ids)), ShapeError);
        expect_near(last_row(logits(batch_of(without_first(ids)))),
                    expected.at("logits_last_of_last_8"), kTolerance, c.at("id"));
      } else if (expected.contains("logits")) {
        expect_near(logits(batch_of(ids)), expected.at("logits"), kTolerance, c.at("id"));
      } else {
        expect_near(last_row(logits(batch_of(ids))), expected.at("logits_both"), kTolerance,
                    c.at("id"));
      }
    }
  }
}

}  // namespace
}  // namespace prenorm::reference
