#include "prenorm/study/fingerprint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "prenorm/base/philox.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/model/gpt.h"
#include "prenorm/study/fingerprint_kernels.h"

namespace prenorm {
namespace {

constexpr Index kVocabulary = 31, kTime = 24, kBatch = 6;

GptConfig small_model(NormPlacement norm) {
  GptConfig config;
  config.vocab_size = kVocabulary;
  config.block_size = kTime;
  config.n_layer = 2;
  config.n_head = 3;
  config.n_embd = 36;
  config.norm = norm;
  config.activation = norm == NormPlacement::kPre ? Activation::kGeluTanh : Activation::kGelu;
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.1;
  return config;
}

// Token ids with something to learn in them: each is the one before it plus a small step.
struct Tokens {
  std::array<TokenId, kBatch * kTime> inputs{}, targets{};

  explicit Tokens(std::uint32_t step) {
    const PhiloxKey key =
        RandomStream{.seed = 3, .purpose = Purpose::kBatchOrder, .step = step}.key();
    for (std::size_t b = 0; b < kBatch; ++b) {
      std::uint32_t id = random_word(key, 1000 + b) % kVocabulary;
      for (std::size_t t = 0; t < kTime; ++t) {
        const std::size_t i = b * kTime + t;
        inputs[i] = static_cast<TokenId>(id);
        id = (id + 1 + random_word(key, i) % 2) % kVocabulary;
        targets[i] = static_cast<TokenId>(id);
      }
    }
  }
  TokenBatch batch() const {
    return {TokenMatrix(inputs.data(), {kBatch, kTime}),
            TokenMatrix(targets.data(), {kBatch, kTime})};
  }
};

// The weights, their gradient after one pass, or their values after training with AdamW.
class Training {
 public:
  Training(const Runtime& run, NormPlacement norm, Products products = Products::kFloat32)
      : run_(run),
        model_(small_model(norm)),
        work_((model_.set_products(products), model_.make_workspace(kBatch, kTime))) {
    model_.initialize(1);
    const std::size_t count = model_.parameters().values().size();
    first_.resize(count);
    second_.resize(count);
  }

  void pass(std::uint32_t step) {
    const Tokens tokens(step);
    const LossSum loss = model_.forward_backward(run_, work_, tokens.batch(),
                                                 1.0 / static_cast<double>(kBatch * kTime),
                                                 {.seed = 9, .step = step});
    model_.finish_gradients(run_, work_);
    hash_.add(std::span<const double>(std::array{loss.loss}));
  }
  void update(std::uint32_t step) {
    double squares = 0.0;
    for (const Parameter& p : model_.parameters()) squares += kernels::sum_of_squares(run_, p.grad);
    kernels::AdamWStep options{.learning_rate = 3e-3, .weight_decay = 0.1, .step = step};
    options.grad_scale = std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
    std::size_t at = 0;
    for (Parameter& p : model_.parameters()) {
      const std::size_t count = p.value.size();
      kernels::adamw(run_, options,
                     {p.value, p.grad, std::span(first_).subspan(at, count),
                      std::span(second_).subspan(at, count)});
      at += count;
    }
  }
  std::uint64_t hash_gradients() {
    for (const Parameter& p : model_.parameters()) hash_.add(std::span<const float>(p.grad));
    return hash_.value();
  }
  std::uint64_t hash_weights() {
    for (const Parameter& p : model_.parameters()) hash_.add(std::span<const float>(p.value));
    return hash_.value();
  }
  std::uint64_t hash_logits() {
    const Tokens tokens(0);
    Numbers logits(kBatch * kTime, kVocabulary);
    model_.logits(run_, work_, tokens.batch().inputs, logits);
    BitHash hash;
    hash.add(ConstMatrix(logits));
    return hash.value();
  }

 private:
  const Runtime& run_;
  Gpt model_;
  Gpt::Workspace work_;
  std::vector<float> first_, second_;
  BitHash hash_;
};

std::uint64_t bf16_training(const Runtime& run, Products products) {
  Training training(run, NormPlacement::kPre, products);
  for (std::uint32_t step = 1; step <= 20; ++step) {
    training.pass(step);
    training.update(step);
  }
  return training.hash_weights();
}

}  // namespace

std::vector<Fingerprint> compute_fingerprints(const Runtime& run) {
  std::vector<Fingerprint> found;
  for (const KernelFingerprint& kernel : kernel_fingerprints()) {
    found.push_back({kernel.name, kernel.compute(run)});
  }
  Training pre(run, NormPlacement::kPre), post(run, NormPlacement::kPost);
  found.push_back({"initial weights", Training(run, NormPlacement::kPre).hash_weights()});
  found.push_back({"logits", pre.hash_logits()});
  pre.pass(1);
  found.push_back({"gradients, pre-norm", pre.hash_gradients()});
  post.pass(1);
  found.push_back({"gradients, post-norm", post.hash_gradients()});
  pre.update(1);
  for (std::uint32_t step = 2; step <= 100; ++step) {
    pre.pass(step);
    pre.update(step);
  }
  found.push_back({"training of 100 steps", pre.hash_weights()});
  found.push_back({"logits after training", pre.hash_logits()});
  for (const KernelFingerprint& kernel : bf16_fingerprints()) {
    found.push_back({kernel.name, kernel.compute(run)});
  }
  found.push_back({"training in bfloat16, dot", bf16_training(run, Products::kBfloat16Dot)});
  found.push_back({"training in bfloat16, tile", bf16_training(run, Products::kBfloat16Tile)});
  return found;
}

std::span<const Fingerprint> recorded_fingerprints() {
  static constexpr std::array kRecorded = {
#include "prenorm/study/fingerprint_record.inc"
  };
  return kRecorded;
}

std::optional<std::size_t> first_difference(std::span<const Fingerprint> found) {
  const std::span<const Fingerprint> recorded = recorded_fingerprints();
  const auto [here, there] = std::ranges::mismatch(found, recorded);
  if (here == found.end() && there == recorded.end()) return std::nullopt;
  return static_cast<std::size_t>(here - found.begin());
}

}  // namespace prenorm
