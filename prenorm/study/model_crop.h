// The corner of a model: its first layers, heads, features, tokens and positions, with the weights
// that stand there. A smaller model of the same kind, on which costly arithmetic takes seconds.
//
//   const CropSize size = crop_size(model.config());
//   const std::unique_ptr<Gpt> small = cropped_model(model, size);
#pragma once
#include <memory>

#include "prenorm/model/gpt.h"
#include "prenorm/study/layer_pass.h"

namespace prenorm {

struct CropSize {
  Index vocab = 0, context = 0, layers = 0;
  Index heads = 0, width = 0, inner = 0;

  bool same_block(const GptConfig& config) const {
    return width == config.n_embd && inner == config.feed_forward_width();
  }
  bool operator==(const CropSize&) const = default;
};

// The largest corner with at most 256 tokens, 8 positions, a width of about 1,024 (whole heads), a
// feed-forward width of 4,096 and as many layers as hold about two million parameters, but one.
CropSize crop_size(const GptConfig& config);

// The corner of one parameter of the model, by its name.
Values corner(const Parameter& parameter, const CropSize& size);

// For training, without dropout. Requires: size is at most the model's.
std::unique_ptr<Gpt> cropped_model(const Gpt& model, const CropSize& size);

}  // namespace prenorm
