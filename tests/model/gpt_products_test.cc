// A Gpt whose products are in bfloat16: near the one in float32, and with bits of its own that are
// as reproducible.
#include "tests/model/gpt_test_util.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

constexpr Products kOrders[] = {Products::kBfloat16Dot, Products::kBfloat16Tile};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    apart += difference * difference;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(apart / size);
}

TEST(GptProducts, in_bfloat16_loss_and_gradients_are_near_those_in_float32) {
  for (const GptConfig& c : each_kind()) {
    SCOPED_TRACE(name(c));
    Gpt model(c);
    model.initialize(5);
    const Windows w(5, 67, c.vocab_size);
    const Runtime run;
    const TestStep exact = step_of(run, model, w, {5});
    for (const Products products : kOrders) {
      model.set_products(products);
      EXPECT_EQ(model.products(), products);
      const TestStep step = step_of(run, model, w, {5});
      EXPECT_NEAR(step.loss, exact.loss, tolerance::kBfloat16Loss * exact.loss);
      EXPECT_NE(step.loss, exact.loss);
      EXPECT_LT(distance(step.gradients, exact.gradients), tolerance::kBfloat16Gradient);
    }
  }
}

TEST(GptProducts, a_step_has_the_same_bits_on_every_target_and_thread_count) {
  for (const GptConfig& c : each_kind(0.1)) {
    SCOPED_TRACE(name(c));
    const auto model = random_model(c);
    for (const Products products : kOrders) {
      model->set_products(products);
      expect_same_bits_everywhere(subject_of(*model, Windows(5, 67, c.vocab_size), 1.0 / 335));
    }
  }
}

TEST(GptProducts, micro_batches_give_the_gradient_bits_of_the_one_batch) {
  for (GptConfig c : each_kind(0.2)) {
    SCOPED_TRACE(name(c));
    c.block_size = 128;
    const auto model = random_model(c);
    const Windows w(8, 128, c.vocab_size);
    const Runtime run(Runtime::Options{2, "auto"});
    for (const Products products : kOrders) {
      model->set_products(products);
      const std::vector<float> whole = step_of(run, *model, w, {8}).gradients;
      for (const std::vector<Index>& split : {std::vector<Index>{4, 4}, {2, 2, 2, 2}, {2, 6}}) {
        EXPECT_TRUE(same_bits(step_of(run, *model, w, split).gradients, whole));
      }
    }
  }
}

TEST(GptProducts, a_workspace_serves_the_products_that_it_was_made_for) {
  const auto model = random_model(small_config());
  const Windows w(1, 4, 23);
  const Runtime run;
  Gpt::Workspace work = model->make_workspace(1, 4);
  const std::size_t bytes = model->workspace_bytes(1, 4);
  model->set_products(Products::kBfloat16Tile);
  EXPECT_GT(model->workspace_bytes(1, 4), bytes);  // with the head's weight as operands
  expect_error<Error>([&] { model->evaluate(run, work, w.all()); },
                      "Gpt: workspace: expected one made for products in bf16-tile, found f32");
  model->set_products(Products::kFloat32);
  EXPECT_GT(model->evaluate(run, work, w.all()).loss, 0.0);
}

TEST(GptProducts, logits_and_decoding_are_in_bfloat16_as_the_loss_is) {
  const auto model = random_model(small_config());
  const Windows w(2, 9, 23);
  const Runtime run;
  model->set_products(Products::kBfloat16Tile);
  Gpt::Workspace work = model->make_workspace(2, 9);
  TestMatrix logits(18, 23), last(2, 23);
  model->logits(run, work, w.tokens(), logits.view());
  Gpt::Cache cache = model->make_cache(2);
  model->decode(run, cache, w.tokens(), last.view());
  for (Index b = 0; b < 2; ++b) {
    EXPECT_EQ(0, std::memcmp(last.view()[b].data(), logits.view()[b * 9 + 8].data(), 23 * 4));
  }
}

}  // namespace
}  // namespace prenorm
