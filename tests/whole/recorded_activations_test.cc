// A trained model against the activations that its author's PyTorch recorded: every stage of the
// first block, the block outputs and the logits, through the library's own layers and kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "prenorm/formats/safetensors.h"
#include "prenorm/kernels/activation.h"
#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/matmul.h"
#include "prenorm/model/checkpoint.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

const std::filesystem::path kFolder = PRENORM_SOURCE_DIR "/../shared/data/gpt-nano-sort";

constexpr Index kSequences = 3, kTime = 11, kWidth = 48, kHeads = 3, kHead = 16, kVocabulary = 3;
constexpr Index kRows = kSequences * kTime;

#define SKIP_WITHOUT_MODEL()                                                      \
  if (!std::filesystem::exists(kFolder)) {                                        \
    GTEST_SKIP() << "the recorded model (shared/data/gpt-nano-sort) is not here"; \
  }

struct Owned {
  std::vector<float> values;
  Matrix view;
  Owned(Index rows, Index columns)
      : values(static_cast<std::size_t>(rows * columns)), view(values.data(), {rows, columns}) {}
};

class Recording {
 public:
  Recording() : file_(kFolder / "recorded-activations.safetensors") {}

  std::vector<float> values(const std::string& name) const {
    return file_.floats(*file_.find(name));
  }
  Owned matrix(const std::string& name, Index columns) const {
    const std::vector<float> all = values(name);
    Owned m(static_cast<Index>(all.size()) / columns, columns);
    std::ranges::copy(all, m.values.begin());
    return m;
  }
  std::vector<TokenId> tokens() const {
    std::vector<TokenId> ids;
    for (float x : values("idx")) ids.push_back(static_cast<TokenId>(x));
    return ids;
  }

 private:
  Safetensors file_;
};

float largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0.0f;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) continue;  // also two infinities
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

// The model's own parameters of one layer under the names of a layer built alone.
template <typename Made>
struct Alone {
  ParameterRegistry registry;
  std::unique_ptr<Made> layer;

  template <typename... Args>
  Alone(const Gpt& model, const std::string& name, Args... args) {
    layer = std::make_unique<Made>(registry, name, args...);
    registry.allocate(false);
    for (Parameter& p : registry) {
      std::ranges::copy(model.parameters().find(p.name)->value, p.value.begin());
    }
  }
};

void expect_stage(const Recording& recorded, const std::string& name, const Owned& ours) {
  EXPECT_LE(largest_difference(recorded.values(name), ours.values), tolerance::kRecordedStage)
      << name;
}

TEST(RecordedActivations, logits_and_block_outputs_agree) {
  SKIP_WITHOUT_MODEL();
  const Recording recorded;
  const Runtime run;
  const auto model = load_pretrained(kFolder, Gpt::Mode::kInference);
  const std::vector<TokenId> ids = recorded.tokens();
  Gpt::Workspace work = model->make_workspace(kSequences, kTime);
  Owned logits(kRows, kVocabulary);
  model->logits(run, work, TokenMatrix(ids.data(), {kSequences, kTime}), logits.view);
  const float difference = largest_difference(recorded.values("lm_head"), logits.values);
  std::cout << "largest difference of the logits: " << difference << "\n";
  EXPECT_LE(difference, tolerance::kRecordedLogits);

  kernels::softmax(run, logits.view, logits.view);
  expect_stage(recorded, "probs", logits);
}

// Each stage from the recorded input of that stage, so that a wrong one is the one that is named.
TEST(RecordedActivations, every_stage_of_the_first_block_agrees) {
  SKIP_WITHOUT_MODEL();
  const Recording r;
  const Runtime run;
  const auto model = load_pretrained(kFolder, Gpt::Mode::kInference);
  const std::string block = "transformer.h.0.";
  const Alone<LayerNorm> ln_1(*model, block + "ln_1", kWidth), ln_2(*model, block + "ln_2", kWidth);
  const Alone<Linear> c_attn(*model, block + "attn.c_attn", kWidth, 3 * kWidth);
  const Alone<Linear> attn_proj(*model, block + "attn.c_proj", kWidth, kWidth);
  const Alone<Linear> c_fc(*model, block + "mlp.c_fc", kWidth, 4 * kWidth);
  const Alone<Linear> mlp_proj(*model, block + "mlp.c_proj", 4 * kWidth, kWidth);
  const Alone<Embedding> embedding(*model, "transformer", kVocabulary, kTime, kWidth);
  const std::vector<TokenId> ids = r.tokens();

  Owned x(kRows, kWidth), wide(kRows, 4 * kWidth), qkv(kRows, 3 * kWidth), y(kRows, kWidth);
  embedding.layer->forward(run, TokenMatrix(ids.data(), {kSequences, kTime}), 0, x.view);
  expect_stage(r, "x", x);
  ln_1.layer->forward(run, r.matrix("x", kWidth).view, y.view);
  expect_stage(r, "ln1", y);
  c_attn.layer->forward(run, r.matrix("ln1", kWidth).view, qkv.view);
  expect_stage(r, "qkv", qkv);

  kernels::AttentionShape shape;
  shape.batch = kSequences;
  shape.time = kTime;
  shape.heads = kHeads;
  shape.head_width = kHead;
  shape.scale = 0.25;
  kernels::attention_forward(run, shape,
                             kernels::split_qkv(ConstMatrix(r.matrix("qkv", 3 * kWidth).view)), {},
                             y.view, {}, {}, {});
  expect_stage(r, "y", y);

  kernels::Epilogue residual;
  attn_proj.layer->forward(run, r.matrix("y", kWidth).view, x.view, residual);
  expect_stage(r, "yProj", x);
  const Owned input = r.matrix("x", kWidth);
  residual.residual = input.view;
  attn_proj.layer->forward(run, r.matrix("y", kWidth).view, x.view, residual);
  expect_stage(r, "attnResid", x);

  ln_2.layer->forward(run, r.matrix("attnResid", kWidth).view, y.view);
  expect_stage(r, "ln2", y);
  c_fc.layer->forward(run, r.matrix("ln2", kWidth).view, wide.view);
  expect_stage(r, "fc", wide);
  kernels::activation_forward(run, Activation::kGeluTanh, r.matrix("fc", 4 * kWidth).view,
                              wide.view);
  expect_stage(r, "gelu", wide);
  mlp_proj.layer->forward(run, r.matrix("gelu", 4 * kWidth).view, x.view);
  expect_stage(r, "mlp", x);
  const Owned h = r.matrix("attnResid", kWidth);
  residual.residual = h.view;
  mlp_proj.layer->forward(run, r.matrix("gelu", 4 * kWidth).view, x.view, residual);
  expect_stage(r, "mlpResid", x);
  expect_stage(r, "block0", x);
}

TEST(RecordedActivations, scores_and_their_softmax_agree) {
  SKIP_WITHOUT_MODEL();
  const Recording r;
  const Runtime run;
  // [B, H, T, D] each, so that every head is rows of one matrix; the scores [B, H, T, T].
  const Owned q = r.matrix("q", kHead), k = r.matrix("k", kHead), qkv = r.matrix("qkv", 3 * kWidth);
  Owned scores(kSequences * kHeads * kTime, kTime), weights(kSequences * kHeads * kTime, kTime);
  for (Index head = 0; head < kSequences * kHeads; ++head) {
    const Index first = head * kTime;
    kernels::matmul(run, q.view.rows(first, kTime),
                    kernels::Right::transposed(k.view.rows(first, kTime)),
                    scores.view.rows(first, kTime), {});
    for (Index t = 0; t < kTime; ++t) {
      for (Index c = 0; c < kHead; ++c) {  // q is a slice of qkv
        EXPECT_EQ(q.view[first + t][c],
                  qkv.view[head / kHeads * kTime + t][head % kHeads * kHead + c]);
      }
      for (Index s = 0; s < kTime; ++s) {
        float& score = scores.view[first + t][s];
        score = s > t ? -INFINITY : score * 0.25f;
      }
    }
  }
  kernels::softmax(run, r.matrix("att", kTime).view, weights.view);
  expect_stage(r, "attSm", weights);
  expect_stage(r, "att", scores);
}

TEST(RecordedActivations, greedy_decoding_sorts_all_729_inputs) {
  SKIP_WITHOUT_MODEL();
  constexpr Index kInputs = 729, kDigits = 6;
  const Runtime run;
  const auto model = load_pretrained(kFolder, Gpt::Mode::kInference);
  model->pack(run);
  std::vector<TokenId> prompts;
  for (Index i = 0; i < kInputs; ++i) {
    for (Index d = 0, rest = i; d < kDigits; ++d, rest /= 3) {
      prompts.push_back(static_cast<TokenId>(rest % 3));
    }
  }
  Gpt::Cache cache = model->make_cache(kInputs);
  Owned logits(kInputs, kVocabulary);
  std::vector<std::vector<TokenId>> outputs(kInputs);
  std::vector<TokenId> next = prompts;
  for (Index step = 0; step < kDigits; ++step) {
    const Index time = step == 0 ? kDigits : 1;
    model->decode(run, cache, TokenMatrix(next.data(), {kInputs, time}), logits.view);
    next.assign(kInputs, 0);
    for (Index i = 0; i < kInputs; ++i) {
      const auto row = std::span(logits.view[i].data(), kVocabulary);
      const auto best = std::ranges::max_element(row) - row.begin();
      next[static_cast<std::size_t>(i)] = static_cast<TokenId>(best);
      outputs[static_cast<std::size_t>(i)].push_back(static_cast<TokenId>(best));
    }
  }
  Index sorted = 0;
  for (Index i = 0; i < kInputs; ++i) {
    std::vector<TokenId> want(prompts.begin() + i * kDigits, prompts.begin() + (i + 1) * kDigits);
    std::ranges::sort(want);
    sorted += want == outputs[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  EXPECT_EQ(sorted, kInputs);
}

}  // namespace
}  // namespace prenorm
