#include "prenorm/train/watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "prenorm/reference/activation.h"
#include "tests/tolerances.h"
#include "tests/train/small_run.h"

namespace prenorm {
namespace {

using testing_support::small_config;
using testing_support::small_text;

// A pass of a small model with its frame, and the block's own numbers beside it.
struct Watched {
  explicit Watched(GptConfig config = small_config(), float scale = 1.0f) : model(config) {
    model.initialize(3);
    for (float& w : model.parameters().values()) w *= scale;
    Watch watch(model);
    GptObserver both = *watch.observer();
    both.on_block = [&, look = both.on_block](Index layer, ConstMatrix x,
                                              const TransformerBlock::Saved& saved, ConstMatrix y) {
      look(layer, x, saved, y);
      if (layer != 1) return;
      for (Index r = 0; r < y.dim(0); ++r) {
        out.insert(out.end(), y[r].data(), y[r].data() + y.dim(1));
        const ConstVector h = ConstMatrix(saved.feed_forward.hidden)[r];
        hidden.insert(hidden.end(), h.data(), h.data() + h.dim(0));
      }
      const Vector rows = saved.attention.row_max;
      scores.assign(rows.data(), rows.data() + rows.dim(0));
    };
    const std::vector<TokenId> text = small_text(33);
    Gpt::Workspace work = model.make_workspace(2, 16);
    model.forward_backward(run, work, {{text.data(), {2, 16}}, {text.data() + 1, {2, 16}}},
                           1.0 / 32.0, {}, &both);
    frame = watch.finish(7);
  }
  const LayerHealth& health() const { return frame.layers.at(1); }

  Runtime run{{.threads = 1}};
  Gpt model;
  std::vector<float> out, hidden, scores;
  WatchFrame frame;
};

TEST(Watch, sizes_scores_and_gradients_are_those_of_the_pass) {
  const Watched w;
  ASSERT_EQ(w.frame.layers.size(), 2u);
  EXPECT_EQ(w.frame.iter, 7);
  double sum = 0.0, squares = 0.0, largest = 0.0;
  for (const double x : w.out) {
    sum += x;
    squares += x * x;
    largest = std::max(largest, std::abs(x));
  }
  const double n = static_cast<double>(w.out.size()), mean = sum / n;
  double variance = 0.0;
  for (const double x : w.out) variance += (x - mean) * (x - mean) / n;
  EXPECT_NEAR(w.health().rms, std::sqrt(squares / n), tolerance::kDoubleSum);
  EXPECT_NEAR(w.health().spread, std::sqrt(variance), tolerance::kDoubleSum);
  EXPECT_EQ(w.health().largest, largest);
  EXPECT_EQ(w.health().max_score,
            static_cast<double>(*std::max_element(w.scores.begin(), w.scores.end())));
  double gradient = 0.0;
  for (const Parameter& p : w.model.parameters()) {
    if (!p.name.starts_with("transformer.h.1.")) continue;
    for (const double g : p.grad) gradient += g * g;
  }
  EXPECT_NEAR(w.health().grad_norm, std::sqrt(gradient), tolerance::kDoubleSum);
  EXPECT_GT(w.health().grad_norm, 0.0);
}

TEST(Watch, units_that_are_off_are_counted_by_what_the_activation_gives) {
  for (const auto& [activation, textbook] :
       {std::pair{Activation::kRelu, reference::Activation::kRelu},
        {Activation::kGelu, reference::Activation::kGelu},
        {Activation::kGeluTanh, reference::Activation::kGeluTanh}}) {
    GptConfig config = small_config();
    config.activation = activation;
    const Watched w(config, 12.0f);  // hidden numbers far into the tails
    double off = 0.0;
    for (const double h : w.hidden) {
      const double size = std::abs(reference::activate(textbook, h));
      off += activation == Activation::kRelu ? size == 0.0 : size <= 1e-3;
    }
    const double share = off / static_cast<double>(w.hidden.size());
    EXPECT_NEAR(w.health().zeros, share, tolerance::kDoubleSum);
    EXPECT_GT(share, 0.01);
    EXPECT_LT(share, 0.99);
  }
}

TEST(Watch, numbers_that_are_not_finite_stay_so) {
  GptConfig config = small_config();
  const Watched w(config, 3e19f);
  EXPECT_FALSE(std::isfinite(w.health().rms));
  EXPECT_FALSE(std::isfinite(w.health().largest));
  EXPECT_FALSE(std::isfinite(w.health().grad_norm));
}

}  // namespace
}  // namespace prenorm
