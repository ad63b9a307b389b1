#include "prenorm/model/gpt_observer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/model/gpt_test_util.h"

namespace prenorm {
namespace {

struct Seen {
  std::vector<Index> blocks, gradients;
  std::map<Index, Tensor> input, output, gradient, qkv, row_max;
  Tensor final_input, final_output;
  GptObserver observer() {
    GptObserver o;
    o.on_block = [this](Index layer, ConstMatrix x, const TransformerBlock::Saved& saved,
                        ConstMatrix y) {
      blocks.push_back(layer);
      input[layer] = to_tensor(x);
      output[layer] = to_tensor(y);
      qkv[layer] = to_tensor(saved.attention.qkv);
      row_max[layer] = to_tensor(saved.attention.row_max);
    };
    o.on_final_norm = [this](ConstMatrix x, ConstMatrix y) {
      final_input = to_tensor(x);
      final_output = to_tensor(y);
    };
    o.on_gradient = [this](Index layer, ConstMatrix g) {
      gradients.push_back(layer);
      gradient[layer] = to_tensor(g);
    };
    return o;
  }
};

Seen observe(const Runtime& run, Gpt& model, const Windows& w) {
  Seen seen;
  const GptObserver observer = seen.observer();
  Gpt::Workspace work = model.make_workspace(w.batch, w.time);
  model.parameters().zero_grad();
  model.forward_backward(run, work, w.all(), 0.01, kStep, &observer);
  return seen;
}

TEST(GptObserver, it_changes_no_bit_of_loss_and_gradients_and_may_be_empty) {
  const Runtime run({.threads = 2});
  for (const GptConfig& config : each_kind(0.1)) {
    const auto model = random_model(config);
    const Windows w(2, 9, config.vocab_size);
    Gpt::Workspace work = model->make_workspace(w.batch, w.time);
    model->parameters().zero_grad();
    const double loss = model->forward_backward(run, work, w.all(), 0.01, kStep).loss;
    const std::vector<float> gradients = gradients_of(*model);
    observe(run, *model, w);
    EXPECT_TRUE(same_bits(gradients, gradients_of(*model))) << name(config);
    const GptObserver none;
    model->parameters().zero_grad();
    EXPECT_EQ(model->forward_backward(run, work, w.all(), 0.01, kStep, &none).loss, loss);
    EXPECT_TRUE(same_bits(gradients, gradients_of(*model))) << name(config);
  }
}

TEST(GptObserver, it_sees_the_stream_from_block_to_block_and_its_gradient_back) {
  const Runtime run({.threads = 1});
  for (const GptConfig& config : each_kind()) {
    const auto model = random_model(config);
    const Windows w(1, 9, config.vocab_size);
    Seen seen = observe(run, *model, w);
    EXPECT_EQ(seen.blocks, (std::vector<Index>{0, 1}));
    EXPECT_EQ(seen.gradients, (std::vector<Index>{2, 1, 0}));
    EXPECT_EQ(seen.output[0], seen.input[1]);
    EXPECT_EQ(seen.output[1], seen.final_input);
    // Each position occurs once: the gradient of its embedding is that of the stream.
    const Tensor wpe = to_tensor(model->parameters().find("transformer.wpe.weight")->grad_matrix());
    for (Index t = 0; t < w.time; ++t) {
      for (Index c = 0; c < config.n_embd; ++c) EXPECT_EQ(seen.gradient[0](t, c), wpe(t, c));
    }
  }
}

TEST(GptObserver, the_largest_score_of_a_row_is_the_largest_of_the_keys_that_it_sees) {
  const Runtime run({.threads = 1});
  const auto model = random_model(small_config());
  const Windows w(1, 70, model->config().vocab_size);  // two blocks of keys
  Seen seen = observe(run, *model, w);
  const Tensor& qkv = seen.qkv[1];
  const Index width = 10, heads = 2, head = width / heads;
  for (Index h = 0; h < heads; ++h) {
    for (Index t = 0; t < w.time; ++t) {
      double largest = -std::numeric_limits<double>::infinity();
      for (Index s = 0; s <= t; ++s) {
        double score = 0.0;
        for (Index d = h * head; d < (h + 1) * head; ++d) score += qkv(t, d) * qkv(s, width + d);
        largest = std::max(largest, score / std::sqrt(static_cast<double>(head)));
      }
      EXPECT_NEAR(seen.row_max[1][h * w.time + t], largest,
                  tolerance::kFloatAtol + tolerance::kFloatRtol * std::abs(largest));
    }
  }
}

}  // namespace
}  // namespace prenorm
