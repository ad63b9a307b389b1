#include "prenorm/study/model_crop.h"

#include <algorithm>

namespace prenorm {
namespace {

constexpr Index kMostTokens = 256, kMostPositions = 8, kMostWidth = 1024, kMostInner = 4096;
constexpr Index kMostParameters = 2'000'000;  // of the blocks together

// What is kept of a matrix [R, groups · K]: the first rows, and of each group the first columns. A
// vector is a matrix of one row.
struct Kept {
  Index rows, groups, columns;
};

Kept kept_of(const Parameter& p, const CropSize& size) {
  const auto is = [&](std::string_view suffix) { return p.name.ends_with(suffix); };
  if (is("wpe.weight")) return {size.context, 1, size.width};
  if (is("wte.weight") || is("lm_head.weight")) return {size.vocab, 1, size.width};
  if (is("attn.c_attn.weight")) return {size.width, 3, size.width};
  if (is("attn.c_attn.bias")) return {1, 3, size.width};
  if (is("mlp.c_fc.weight")) return {size.width, 1, size.inner};
  if (is("mlp.c_fc.bias")) return {1, 1, size.inner};
  if (is("mlp.c_proj.weight")) return {size.inner, 1, size.width};
  if (is("attn.c_proj.weight")) return {size.width, 1, size.width};
  return {1, 1, size.width};  // norms and biases
}

}  // namespace

CropSize crop_size(const GptConfig& config) {
  CropSize size;
  size.vocab = std::min(config.vocab_size, kMostTokens);
  size.context = std::min(config.block_size, kMostPositions);
  const Index head = config.n_embd / config.n_head;
  size.heads = std::clamp<Index>(kMostWidth / head, 1, config.n_head);
  size.width = size.heads * head;
  size.inner = std::min(config.feed_forward_width(), kMostInner);
  const Index block = size.width * (4 * size.width + 2 * size.inner);
  size.layers = std::clamp<Index>(kMostParameters / block, 1, config.n_layer);
  return size;
}

Values corner(const Parameter& parameter, const CropSize& size) {
  const auto [rows, groups, columns] = kept_of(parameter, size);
  const Index all_columns = parameter.shape.back(), group = all_columns / groups;
  std::vector<Index> shape{groups * columns};
  if (parameter.shape.size() == 2) shape.insert(shape.begin(), rows);
  Values out(shape);
  for (Index r = 0; r < rows; ++r) {
    for (Index g = 0; g < groups; ++g) {
      const float* from = parameter.value.data() + r * all_columns + g * group;
      std::copy_n(from, columns, out.row(r) + g * columns);
    }
  }
  return out;
}

std::unique_ptr<Gpt> cropped_model(const Gpt& model, const CropSize& size) {
  GptConfig config = model.config();
  config.vocab_size = size.vocab;
  config.block_size = size.context;
  config.n_layer = size.layers;
  config.n_head = size.heads;
  config.n_embd = size.width;
  config.n_inner = size.inner;
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.0;
  // The scores' scale is 1/√D of whole heads, and so the model's.
  auto small = std::make_unique<Gpt>(config, Gpt::Mode::kTraining);
  for (Parameter& p : small->parameters()) {
    const Values values = corner(*model.parameters().find(p.name), size);
    std::ranges::transform(values, p.value.begin(), [](double x) { return static_cast<float>(x); });
  }
  return small;
}

}  // namespace prenorm
