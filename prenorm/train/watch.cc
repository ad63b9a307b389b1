#include "prenorm/train/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "prenorm/reference/activation.h"

namespace prenorm {
namespace {

constexpr double kOff = 1e-3;  // a GELU's output that passes on nothing to speak of

double gelu(Activation activation, double x) {
  const auto kind = activation == Activation::kGelu ? reference::Activation::kGelu
                                                    : reference::Activation::kGeluTanh;
  return reference::activate(kind, x);
}

// Where |gelu| crosses kOff between a, where it is on one side, and b.
double crossing(Activation activation, double a, double b) {
  const bool above = std::abs(gelu(activation, a)) > kOff;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (a + b);
    ((std::abs(gelu(activation, middle)) > kOff) == above ? a : b) = middle;
  }
  return 0.5 * (a + b);
}

// Sums that keep a NaN and an infinity.
struct Sizes {
  double sum = 0.0, squares = 0.0, largest = 0.0;
  Index count = 0;

  explicit Sizes(ConstMatrix x) : count(x.dim(0) * x.dim(1)) {
    for (Index row = 0; row < x.dim(0); ++row) {
      const float* values = x[row].data();
      for (Index c = 0; c < x.dim(1); ++c) {
        const double value = values[c];
        sum += value;
        squares += value * value;
        if (!(std::abs(value) <= largest)) largest = std::abs(value);
      }
    }
  }
};

}  // namespace

Watch::Watch(const Gpt& model) : model_(model) {
  const Activation activation = model.config().activation;
  if (activation == Activation::kRelu) {
    tail_ = 0.0f;
    low_ = std::numeric_limits<float>::infinity();  // nothing else
    high_ = -low_;
  } else {
    // |GELU| rises from the tail to x = −0.75, falls to 0 at 0, and rises again.
    tail_ = static_cast<float>(crossing(activation, -10.0, -0.75));
    low_ = static_cast<float>(crossing(activation, -0.75, 0.0));
    high_ = static_cast<float>(crossing(activation, 0.0, 1.0));
  }
  observer_.on_block = [this](Index layer, ConstMatrix, const TransformerBlock::Saved& saved,
                              ConstMatrix y) { look(layer, saved, y); };
}

const GptObserver* Watch::observer() {
  frame_ = WatchFrame();
  frame_.layers.resize(static_cast<std::size_t>(model_.config().n_layer));
  return &observer_;
}

WatchFrame Watch::finish(Index iter) {
  frame_.iter = iter;
  for (std::size_t l = 0; l < frame_.layers.size(); ++l) {
    frame_.layers[l].grad_norm = std::sqrt(model_.squared_gradient(static_cast<Index>(l)));
  }
  return std::move(frame_);
}

void Watch::look(Index layer, const TransformerBlock::Saved& saved, ConstMatrix y) {
  LayerHealth& health = frame_.layers[static_cast<std::size_t>(layer)];
  const Sizes sizes(y);
  const double count = static_cast<double>(sizes.count), mean = sizes.sum / count;
  health.rms = std::sqrt(sizes.squares / count);
  const double variance = sizes.squares / count - mean * mean;
  health.spread = variance < 0.0 ? 0.0 : std::sqrt(variance);  // rounding; a NaN stays
  health.largest = sizes.largest;
  health.zeros = share_of_zeros(saved.feed_forward.hidden);
  const Vector scores = saved.attention.row_max;
  double most = -std::numeric_limits<double>::infinity();
  for (Index i = 0; i < scores.dim(0); ++i) {
    const double score = scores[i];
    if (!(score <= most)) most = score;
    if (std::isnan(most)) break;
  }
  health.max_score = most;
}

double Watch::share_of_zeros(ConstMatrix hidden) const {
  Index zeros = 0;
  for (Index row = 0; row < hidden.dim(0); ++row) {
    const float* h = hidden[row].data();
    for (Index c = 0; c < hidden.dim(1); ++c) {
      zeros += (h[c] <= tail_) || (h[c] >= low_ && h[c] <= high_);
    }
  }
  return static_cast<double>(zeros) / static_cast<double>(hidden.dim(0) * hidden.dim(1));
}

}  // namespace prenorm
