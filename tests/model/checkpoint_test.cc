#include "prenorm/model/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/config_json.h"
#include "tests/config_of.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const fs::path kShared = fs::path(PRENORM_SOURCE_DIR) / ".." / "shared";

GptConfig tiny() { return config_of(2, 2, 4, 5, 7); }

std::unique_ptr<Gpt> make_model(const GptConfig& config) {
  auto model = std::make_unique<Gpt>(config);
  model->initialize(1);
  // Distinct values everywhere, so that no two tensors could be taken for each other.
  float next = 0.25f;
  for (Parameter& p : model->parameters()) {
    for (float& x : p.value) x += next += 0.125f;
  }
  return model;
}

void expect_same_bits(const Gpt& a, const Gpt& b) {
  ASSERT_EQ(a.parameters().count(), b.parameters().count());
  for (const Parameter& p : a.parameters()) {
    const Parameter* q = b.parameters().find(p.name);
    ASSERT_NE(q, nullptr) << p.name;
    ASSERT_EQ(p.shape, q->shape) << p.name;
    EXPECT_EQ(std::memcmp(p.value.data(), q->value.data(), p.value.size_bytes()), 0) << p.name;
  }
}

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "prenorm-checkpoint-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path weights() const { return folder_ / "model.safetensors"; }

  // Saves the model's file again after a change to its tensors.
  template <typename F>
  void edit(F change) {
    const std::string bytes = read_file(weights());
    const Safetensors file(std::as_bytes(std::span(bytes)), "x");
    std::vector<Tensor> tensors = file.tensors();
    change(tensors);
    save_safetensors(weights(), std::move(tensors));
  }

  static Tensor& find(std::vector<Tensor>& tensors, const std::string& name) {
    for (Tensor& t : tensors) {
      if (t.name == name) return t;
    }
    throw Error("no tensor " + name);
  }

  std::string refusal() {
    try {
      load_pretrained(folder_, Gpt::Mode::kInference);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "accepted";
  }

  fs::path folder_;
};

TEST_F(Checkpoint, every_kind_of_model_round_trips_to_the_same_bits) {
  for (const bool bias : {true, false}) {
    for (const bool tied : {true, false}) {
      for (const NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
        GptConfig config = tiny();
        config.bias = bias;
        config.tie_word_embeddings = tied;
        config.norm = norm;
        config.n_inner = 6;
        const auto model = make_model(config);
        save_pretrained(*model, folder_);
        const auto loaded = load_pretrained(folder_, Gpt::Mode::kInference);
        expect_same_bits(*model, *loaded);
        EXPECT_EQ(loaded->config().bias, bias);
        EXPECT_EQ(loaded->config().norm, norm);
        EXPECT_EQ(loaded->config().tie_word_embeddings, tied);
        const std::string first = read_file(weights());
        save_pretrained(*loaded, folder_);
        EXPECT_EQ(read_file(weights()), first);
      }
    }
  }
}

TEST_F(Checkpoint, a_mapped_model_reads_its_matrices_in_the_file_and_has_the_same_bits) {
  const auto saved = make_model(tiny());
  save_pretrained(*saved, folder_);
  const auto mapped =
      load_pretrained(folder_, Gpt::Mode::kInference, nullptr, WeightMemory::kMapped);
  expect_same_bits(*saved, *mapped);
  const auto own = load_pretrained(folder_, Gpt::Mode::kInference);
  const std::span<float> block = own->parameters().values();
  const auto is_within = [](std::span<const float> part, std::span<const float> all) {
    return part.data() >= all.data() && part.data() < all.data() + all.size();
  };
  EXPECT_TRUE(is_within(own->parameters().find("transformer.wte.weight")->value, block));
  // One after another in the file; in the registry the vectors lie between them.
  const auto& wte = *mapped->parameters().find("transformer.wte.weight");
  const auto& wpe = *mapped->parameters().find("transformer.wpe.weight");
  const Safetensors file(weights());
  const auto distance = [](const auto& a, const auto& b) {
    return reinterpret_cast<const std::byte*>(b.data()) -
           reinterpret_cast<const std::byte*>(a.data());
  };
  EXPECT_EQ(distance(wte.value, wpe.value),
            distance(file.find(wte.name)->bytes, file.find(wpe.name)->bytes));
  // What it reads stays there when the folder is written anew.
  save_pretrained(*make_model(config_of(1, 1, 4, 5, 7)), folder_);
  expect_same_bits(*saved, *mapped);
}

TEST_F(Checkpoint, of_another_type_a_mapped_model_holds_its_own_numbers) {
  save_pretrained(*make_model(tiny()), folder_);
  std::vector<std::uint16_t> halves;
  edit([&](std::vector<Tensor>& tensors) {
    Tensor& wte = find(tensors, "transformer.wte.weight");
    halves.assign(static_cast<std::size_t>(wte.size()), 0x3fc0);  // 1.5
    wte.dtype = Dtype::kBF16;
    wte.bytes = std::as_bytes(std::span<const std::uint16_t>(halves));
  });
  const auto mapped =
      load_pretrained(folder_, Gpt::Mode::kInference, nullptr, WeightMemory::kMapped);
  for (const float x : mapped->parameters().find("transformer.wte.weight")->value) {
    ASSERT_EQ(x, 1.5f);
  }
}

TEST_F(Checkpoint, tensors_have_the_names_and_shapes_of_transformers) {
  save_pretrained(*make_model(tiny()), folder_ / "new" / "run");
  const Safetensors file(folder_ / "new" / "run" / "model.safetensors");
  EXPECT_EQ(file.tensors().size(), 2u * 12 + 4);
  EXPECT_EQ(file.find("lm_head.weight"), nullptr);
  EXPECT_EQ(shape_text(file.find("transformer.wte.weight")->shape), "[7, 4]");
  EXPECT_EQ(shape_text(file.find("transformer.wpe.weight")->shape), "[5, 4]");
  EXPECT_EQ(shape_text(file.find("transformer.h.1.attn.c_attn.weight")->shape), "[4, 12]");
  EXPECT_EQ(shape_text(file.find("transformer.h.1.mlp.c_fc.weight")->shape), "[4, 16]");
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST_F(Checkpoint, biases_that_a_model_does_not_have_are_written_as_zeros) {
  GptConfig config = tiny();
  config.bias = false;
  config.tie_word_embeddings = false;
  save_pretrained(*make_model(config), folder_);
  const Safetensors file(weights());
  EXPECT_EQ(file.tensors().size(), 2u * 12 + 5);
  int biases = 0;
  for (const Tensor& t : file.tensors()) {
    if (!t.name.ends_with(".bias")) continue;
    for (const float x : file.floats(t)) EXPECT_EQ(x, 0.0f) << t.name;
    ++biases;
  }
  EXPECT_EQ(biases, 2 * 6 + 1);
  EXPECT_EQ(shape_text(file.find("transformer.h.0.attn.c_attn.bias")->shape), "[12]");
}

TEST_F(Checkpoint, a_bias_free_model_may_lack_the_zeros_but_not_have_other_values) {
  GptConfig config = tiny();
  config.bias = false;
  const auto model = make_model(config);
  save_pretrained(*model, folder_);
  edit([](std::vector<Tensor>& tensors) {
    std::erase_if(tensors, [](const Tensor& t) { return t.name.ends_with("c_fc.bias"); });
  });
  expect_same_bits(*load_pretrained(folder_, Gpt::Mode::kInference), *model);
  const std::vector<float> values = {0, 0, 1e-30f, 0};
  edit([&](std::vector<Tensor>& tensors) {
    find(tensors, "transformer.ln_f.bias").bytes = std::as_bytes(std::span(values));
  });
  EXPECT_THAT(refusal(), HasSubstr("tensor 'transformer.ln_f.bias': expected zeros, as the model "
                                   "has no biases"));
}

TEST_F(Checkpoint, missing_unexpected_and_misshapen_tensors_are_listed_in_one_error) {
  save_pretrained(*make_model(tiny()), folder_);
  const std::vector<float> values(16);
  const std::vector<Index> integers(4);
  edit([&](std::vector<Tensor>& tensors) {
    find(tensors, "transformer.h.1.mlp.c_fc.bias").name = "transformer.h.1.mlp.c_fc.bais";
    find(tensors, "transformer.ln_f.bias") =
        tensor("transformer.ln_f.bias", {2, 8}, std::span<const float>(values));
    find(tensors, "transformer.ln_f.weight") =
        tensor("transformer.ln_f.weight", {4}, std::span<const Index>(integers));
    tensors.push_back(tensor("h.2.attn.bias", {4, 4}, std::span<const float>(values)));
    tensors.push_back(tensor("h.01.attn.bias", {4, 4}, std::span<const float>(values)));
    tensors.push_back(tensor("h.0.attn.bias2", {4, 4}, std::span<const float>(values)));
  });
  const std::string message = refusal();
  EXPECT_THAT(message,
              HasSubstr("model.safetensors: expected the model's tensors, found 1 missing, "
                        "4 unexpected, 2 of another shape or type"));
  EXPECT_THAT(message, HasSubstr("\n  missing: transformer.h.1.mlp.c_fc.bias"));
  EXPECT_THAT(message, HasSubstr("\n  unexpected: transformer.h.1.mlp.c_fc.bais"));
  EXPECT_THAT(message, HasSubstr("\n  unexpected: h.2.attn.bias"));
  EXPECT_THAT(message, HasSubstr("\n  misfit: transformer.ln_f.bias: expected [4], found [2, 8]"));
  EXPECT_THAT(message, HasSubstr("\n  misfit: transformer.ln_f.weight: expected F32, F16, BF16 or "
                                 "F64, found I64"));
}

TEST_F(Checkpoint, names_without_prefix_and_mask_buffers_are_accepted) {
  const auto model = make_model(tiny());
  save_pretrained(*model, folder_);
  const std::vector<float> values(25);
  edit([&](std::vector<Tensor>& tensors) {
    for (Tensor& t : tensors) t.name = t.name.substr(std::strlen("transformer."));
    tensors.push_back(tensor("h.1.attn.bias", {1, 1, 5, 5}, std::span<const float>(values)));
    tensors.push_back(tensor("h.0.attn.masked_bias", {}, std::span<const float>(values).first(1)));
  });
  expect_same_bits(*load_pretrained(folder_, Gpt::Mode::kInference), *model);
}

TEST_F(Checkpoint, a_name_with_and_without_prefix_is_ambiguous) {
  save_pretrained(*make_model(tiny()), folder_);
  const std::vector<float> values(4);
  edit([&](std::vector<Tensor>& tensors) {
    tensors.push_back(tensor("ln_f.bias", {4}, std::span<const float>(values)));
  });
  EXPECT_THAT(refusal(), HasSubstr("ln_f.bias': expected one tensor of this name"));
}

TEST_F(Checkpoint, a_tied_head_may_be_there_as_a_copy_but_not_contradict) {
  const auto model = make_model(tiny());
  save_pretrained(*model, folder_);
  std::vector<float> head(model->parameters().find("transformer.wte.weight")->value.begin(),
                          model->parameters().find("transformer.wte.weight")->value.end());
  edit([&](std::vector<Tensor>& tensors) {
    tensors.push_back(tensor("lm_head.weight", {7, 4}, std::span<const float>(head)));
  });
  expect_same_bits(*load_pretrained(folder_, Gpt::Mode::kInference), *model);
  head[27] += 1;
  edit([&](std::vector<Tensor>& tensors) {
    find(tensors, "lm_head.weight").bytes = std::as_bytes(std::span(head));
  });
  EXPECT_THAT(refusal(), HasSubstr("'lm_head.weight': expected a copy of wte.weight, as "
                                   "tie_word_embeddings is true"));
}

TEST_F(Checkpoint, a_failed_load_changes_nothing) {
  const auto model = make_model(tiny());
  save_pretrained(*model, folder_);
  GptConfig other = tiny();
  other.n_layer = 3;
  const auto target = make_model(other), untouched = make_model(other);
  EXPECT_THAT([&] { load_weights(*target, weights()); },
              ThrowsMessage<FormatError>(HasSubstr("12 missing")));
  expect_same_bits(*target, *untouched);
  const auto same = std::make_unique<Gpt>(tiny());
  load_weights(*same, weights());
  expect_same_bits(*same, *model);
}

TEST_F(Checkpoint, a_config_that_claims_far_more_than_the_file_holds_is_refused_at_once) {
  const auto model = make_model(tiny());
  save_pretrained(*model, folder_);
  for (const int field : {0, 1, 2, 3}) {
    GptConfig c = tiny();
    Index* const fields[] = {&c.n_layer, &c.n_embd, &c.vocab_size, &c.n_inner};
    *fields[field] = field == 1 ? 2000000 : 2000000000;
    c.n_head = 1;
    save_config(c, folder_);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(refusal(), HasSubstr("as config.json says, found 28 tensors")) << field;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  }
}

TEST_F(Checkpoint, every_truncation_of_the_weights_is_an_error) {
  save_pretrained(*make_model(tiny()), folder_);
  const std::string whole = read_file(weights());
  Gpt target(tiny(), Gpt::Mode::kInference);
  for (std::size_t n = 0; n < whole.size(); n += 13) {
    const std::string cut = whole.substr(0, n);
    EXPECT_THROW(Safetensors(std::as_bytes(std::span(cut)), "x"), FormatError) << n;
  }
  write_file_durably(weights(), whole.substr(0, whole.size() - 1));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("expected " + std::to_string(whole.size()) + " bytes"),
                               HasSubstr("the file is incomplete")));
}

TEST_F(Checkpoint, missing_folders_and_files_are_named) {
  EXPECT_THAT([&] { load_pretrained(folder_ / "none", Gpt::Mode::kInference); },
              ThrowsMessage<IoError>(HasSubstr("none: expected a model folder, found no such")));
  EXPECT_THAT([&] { load_pretrained(folder_, Gpt::Mode::kInference); },
              ThrowsMessage<IoError>(HasSubstr("config.json: expected a readable file")));
  save_config(tiny(), folder_);
  EXPECT_THAT([&] { load_pretrained(folder_, Gpt::Mode::kInference); },
              ThrowsMessage<IoError>(HasSubstr("model.safetensors: expected a readable file")));
}

TEST_F(Checkpoint, a_model_that_transformers_saved_is_saved_again_byte_for_byte) {
  const fs::path nano = kShared / "data" / "gpt-nano-sort";
  if (!fs::exists(nano)) GTEST_SKIP() << "no " << nano;
  const auto model = load_pretrained(nano, Gpt::Mode::kInference);
  EXPECT_FALSE(model->config().tie_word_embeddings);
  save_pretrained(*model, folder_);
  EXPECT_EQ(read_file(weights()), read_file(nano / "model.safetensors"));
}

TEST_F(Checkpoint, the_shared_folders_load_or_fail_as_their_cases_say) {
  const fs::path files = kShared / "cases" / "files";
  if (!fs::exists(files)) GTEST_SKIP() << "no " << files;
  const auto load = [&](const char* name) {
    return load_pretrained(files / name, Gpt::Mode::kInference);
  };
  const auto a = load("tiny_gpt2_a");
  for (const char* same :
       {"tiny_gpt2_a_with_head", "tiny_gpt2_a_hubstyle", "tiny_gpt2_a_boolmask"}) {
    expect_same_bits(*load(same), *a);
  }
  for (const char* name : {"tiny_gpt2_bf16", "tiny_gpt2_f16", "tiny_gpt2_c", "tiny_gpt2_eps",
                           "tiny_gpt2_gelu", "tiny_gpt2_relu"}) {
    EXPECT_GT(load(name)->parameters().total_size(), 1000) << name;
  }
  EXPECT_EQ(load("tiny_gpt2_eps")->config().layer_norm_epsilon, 0.01);
  EXPECT_THAT([&] { load("tiny_gpt2_missing"); },
              ThrowsMessage<FormatError>(
                  AllOf(HasSubstr("missing: transformer.h.1.mlp.c_fc.bias"), HasSubstr("bais"))));
  for (const char* name : {"tiny_bert", "tiny_llama"}) {
    EXPECT_THAT([&] { load(name); },
                ThrowsMessage<FormatError>(HasSubstr("model_type: expected gpt2")))
        << name;
  }
}

}  // namespace
}  // namespace prenorm
