#include "prenorm/study/apply.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/study/apply_inputs.h"
#include "prenorm/study/attention_masks.h"
#include "prenorm/study/kernel_pass.h"
#include "prenorm/study/layer_pass.h"
#include "prenorm/study/loss_reduction.h"
#include "prenorm/study/move_axis.h"
#include "prenorm/study/textbook_pass.h"

namespace prenorm {
namespace {

using Shape = std::vector<Index>;

struct LayerRow {
  std::string_view name;
  std::optional<LayerKind> parameters;
  bool needs_parameters;
};

// In the enum's order.
constexpr std::array kLayers = {
    LayerRow{"layer-norm", LayerKind::kLayerNorm, false},
    LayerRow{"feed-forward", LayerKind::kFeedForward, true},
    LayerRow{"attention", LayerKind::kAttention, true},
    LayerRow{"block", LayerKind::kBlock, true},
    LayerRow{"stack", LayerKind::kStack, true},
    LayerRow{"gpt", std::nullopt, true},
    LayerRow{"linear", LayerKind::kLinear, true},
    LayerRow{"activation", std::nullopt, false},
    LayerRow{"softmax", std::nullopt, false},
    LayerRow{"scaled-dot-product-attention", std::nullopt, false},
    LayerRow{"embedding", LayerKind::kEmbedding, true},
    LayerRow{"cross-entropy", std::nullopt, false},
};

const LayerRow& row_of(ApplyLayer layer) { return kLayers[static_cast<std::size_t>(layer)]; }

Index product(std::span<const Index> shape) {
  Index n = 1;
  for (const Index d : shape) n *= d;
  return n;
}

// One application: what is read, computed and written.
class Application {
 public:
  Application(ApplyLayer layer, const ApplyOptions& options, const TensorFile* parameters,
              const TensorFile& inputs)
      : parameters_(parameters), inputs_(inputs) {
    pass_.layer = layer;
    pass_.options = options;
  }

  std::vector<Tensor> run(const Runtime& run) {
    read();
    LayerOutcome out =
        has_empty() || pass_.options.reference ? textbook_pass(pass_) : kernel_pass(run, pass_);
    return written(out);
  }

 private:
  // A gradient and the name and shape under which it is written.
  struct InputPlace {
    std::string_view name;
    Shape shape;
    Values LayerOutcome::*gradient;
  };

  void read() {
    switch (pass_.layer) {
      case ApplyLayer::kScaledDotProductAttention:
        return read_query_key_value();
      case ApplyLayer::kAttention:
      case ApplyLayer::kBlock:
      case ApplyLayer::kStack:
        return read_sequences();
      case ApplyLayer::kEmbedding:
        return read_embedding();
      case ApplyLayer::kCrossEntropy:
        return read_cross_entropy();
      default:
        return read_rows();
    }
  }

  // --- Parameters -------------------------------------------------------------------------------

  void read_parameters(std::optional<Index> width) {
    const LayerRow& row = row_of(pass_.layer);
    if (parameters_ == nullptr) {
      if (!row.needs_parameters) return;
      throw ConfigError("--params: expected the parameters of a " + std::string(row.name) +
                        ", found none");
    }
    if (!row.parameters) {
      if (parameters_->tensors().empty()) return;
      parameters_->refuse(parameters_->tensors().front(),
                          "no parameters for " + std::string(row.name), "an unexpected tensor");
    }
    layout_.emplace(*row.parameters, *parameters_, width);
    pass_.parameters = layout_->read();
    pass_.layers = layout_->layers();
  }

  // --- Inputs -----------------------------------------------------------------------------------

  // layer-norm, feed-forward, linear, activation, softmax: [.., C] as rows.
  void read_rows() {
    const ApplyInputs in(inputs_, {"input", "grad_output"});
    const Tensor& input = in.require("input");
    const bool elementwise = pass_.layer == ApplyLayer::kActivation;
    const bool softmax = pass_.layer == ApplyLayer::kSoftmax;
    if (input.shape.empty() && !elementwise && !softmax) in.refuse_shape(input, "[.., C]");
    read_parameters(input.shape.empty() ? std::nullopt : std::optional(input.shape.back()));
    const Shape features = features_of(in, input);
    const Index width = product(features);
    if (width == 0 && !elementwise && !softmax) {
      in.refuse_shape(input, "at least one feature");
    }
    // Rows are counted from the axes before the features, so that none may be empty without notice.
    const Index rows = product(std::span(input.shape).first(input.shape.size() - features.size()));
    output_shape_ = input.shape;
    Shape out_rows{rows, width};
    if (pass_.layer == ApplyLayer::kLinear) {
      output_shape_.back() = out_rows[1] = *layout_->inner();
    }
    pass_.input = in.values(input, {rows, width});
    pass_.grad_output = in.grad_output(output_shape_, out_rows);
    if (softmax) move_softmax_axis(input.shape);
    places_ = {{"input", input.shape, &LayerOutcome::dinput}};
  }

  // The last axes, which the layer takes together.
  Shape features_of(const ApplyInputs& in, const Tensor& input) const {
    const Shape& shape = input.shape;
    if (pass_.layer != ApplyLayer::kLayerNorm) {
      const Shape last(shape.end() - (shape.empty() ? 0 : 1), shape.end());
      if (layout_ && last != Shape{*layout_->width()}) {
        in.refuse_shape(input, "[.., " + std::to_string(*layout_->width()) + "]");
      }
      return last;
    }
    const Tensor* weight =
        layout_ && !layout_->tensors().empty() ? layout_->tensors().front().tensor : nullptr;
    const auto axes = static_cast<std::size_t>(std::max<Index>(1, pass_.options.normalized_axes));
    const Shape expected = weight != nullptr ? weight->shape : Shape();
    const std::size_t count = weight != nullptr ? expected.size() : axes;
    if (shape.size() < count) {
      in.refuse_shape(input, "at least " + std::to_string(count) + " axes");
    }
    Shape last(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end());
    if (weight != nullptr && last != expected) {
      in.refuse_shape(input, "[.., " + shape_text(expected).substr(1) + ", as the weight");
    }
    return last;
  }

  void move_softmax_axis(const Shape& shape) {
    const auto rank = static_cast<Index>(shape.size());
    const Index axis = pass_.options.axis < 0 ? pass_.options.axis + rank : pass_.options.axis;
    if (rank == 0) return;
    if (axis < 0 || axis >= rank) {
      throw ConfigError("--axis: expected an axis of " + shape_text(shape) + ", found " +
                        std::to_string(pass_.options.axis));
    }
    moved_ = AxisMove(shape, axis);
    pass_.input = moved_->to_last(pass_.input);
    if (!pass_.grad_output.absent()) pass_.grad_output = moved_->to_last(pass_.grad_output);
  }

  void check_heads(const ApplyInputs& in, const Tensor& input) const {
    const Index heads = pass_.options.heads, width = input.shape.back();
    if (heads < 1) {
      throw ConfigError("--heads: expected the number of heads of the " +
                        std::string(row_of(pass_.layer).name) + ", found none");
    }
    if (width % heads == 0) return;
    in.refuse_shape(input, "a width that " + std::to_string(heads) + " heads divide");
  }

  // attention, block, stack: [B, T, C] or [T, C].
  void read_sequences() {
    const bool may_cross = pass_.layer == ApplyLayer::kAttention;
    const ApplyInputs in =
        may_cross ? ApplyInputs(inputs_, {"input", "key", "value", "attn_mask", "key_padding_mask",
                                          "grad_output"})
                  : ApplyInputs(inputs_, {"input", "attn_mask", "key_padding_mask", "grad_output"});
    const Tensor& input = in.require("input");
    if (input.shape.size() != 2 && input.shape.size() != 3) {
      in.refuse_shape(input, "[B, T, C] or [T, C]");
    }
    read_parameters(input.shape.back());
    if (input.shape.back() != *layout_->width()) {
      in.refuse_shape(input, "[.., " + std::to_string(*layout_->width()) + "]");
    }
    check_heads(in, input);
    const Shape whole = batched(input.shape);
    pass_.input = in.values(input, whole);
    places_ = {{"input", input.shape, &LayerOutcome::dinput}};
    if (may_cross && (in.find("key") != nullptr || in.find("value") != nullptr)) {
      read_key_and_value(in, input);
    }
    const Index keys = pass_.key.absent() ? whole[1] : pass_.key.dim(1);
    pass_.mask = read_attention_masks(inputs_, in.find("attn_mask"), in.find("key_padding_mask"),
                                      {whole[0], pass_.options.heads, whole[1], keys});
    output_shape_ = input.shape;
    pass_.grad_output = in.grad_output(input.shape, whole);
  }

  static Shape batched(const Shape& shape) {
    return shape.size() == 2 ? Shape{1, shape[0], shape[1]} : shape;
  }

  void read_key_and_value(const ApplyInputs& in, const Tensor& input) {
    const Tensor &key = in.require("key"), &value = in.require("value");
    Shape expected = input.shape;
    Index& keys = expected[expected.size() - 2];
    if (key.shape.size() == expected.size()) keys = key.shape[expected.size() - 2];
    in.expect_shape(key, expected);
    in.expect_shape(value, expected);
    pass_.key = in.values(key, batched(expected));
    pass_.value = in.values(value, batched(expected));
    places_.push_back({"key", key.shape, &LayerOutcome::dkey});
    places_.push_back({"value", value.shape, &LayerOutcome::dvalue});
  }

  // scaled-dot-product-attention: query [.., T, D], key [.., S, D], value [.., S, E].
  void read_query_key_value() {
    const ApplyInputs in(inputs_, {"query", "key", "value", "attn_mask", "grad_output"});
    read_parameters({});
    const Tensor &query = in.require("query"), &key = in.require("key");
    const Tensor& value = in.require("value");
    const std::size_t rank = query.shape.size();
    if (rank < 2) in.refuse_shape(query, "[.., T, D]");
    const Shape leading(query.shape.begin(), query.shape.end() - 2);
    const Index time = query.shape[rank - 2], width = query.shape[rank - 1];
    if (width == 0) in.refuse_shape(query, "at least one feature");
    Shape expected = query.shape;
    if (key.shape.size() == rank) expected[rank - 2] = key.shape[rank - 2];
    in.expect_shape(key, expected);
    if (value.shape.size() == rank) expected[rank - 1] = value.shape[rank - 1];
    in.expect_shape(value, expected);
    const Index batch = product(leading), keys = expected[rank - 2], out_width = expected[rank - 1];
    if (const Tensor* mask = in.find("attn_mask")) {
      pass_.mask = read_score_mask(inputs_, *mask, leading, time, keys);
    }
    pass_.input = in.values(query, {batch, time, width});
    pass_.key = in.values(key, {batch, keys, width});
    pass_.value = in.values(value, {batch, keys, out_width});
    output_shape_ = query.shape;
    output_shape_.back() = out_width;
    pass_.grad_output = in.grad_output(output_shape_, {batch, time, out_width});
    places_ = {{"query", query.shape, &LayerOutcome::dinput},
               {"key", key.shape, &LayerOutcome::dkey},
               {"value", value.shape, &LayerOutcome::dvalue}};
  }

  void read_embedding() {
    const ApplyInputs in(inputs_, {"input_ids", "grad_output"});
    read_parameters({});
    const Tensor& ids = in.require("input_ids");
    pass_.ids = in.ids(ids, *layout_->inner());
    output_shape_ = ids.shape;
    output_shape_.push_back(*layout_->width());
    pass_.grad_output = in.grad_output(output_shape_, {ids.size(), *layout_->width()});
    if (!pass_.options.padding_idx || pass_.grad_output.absent()) return;
    for (Index n = 0; n < ids.size(); ++n) {
      if (pass_.ids[static_cast<std::size_t>(n)] != *pass_.options.padding_idx) continue;
      std::fill_n(pass_.grad_output.row(n), pass_.grad_output.columns(), 0.0);
    }
  }

  // cross-entropy: the classes are the axis 1, or the only one.
  void read_cross_entropy() {
    const ApplyInputs in(inputs_, {"input", "targets", "grad_output"});
    read_parameters({});
    const Tensor &input = in.require("input"), &targets = in.require("targets");
    if (input.shape.empty()) in.refuse_shape(input, "[N, V], [V] or [N, V, ..]");
    const Index axis = input.shape.size() == 1 ? 0 : 1;
    const Index classes = input.shape[static_cast<std::size_t>(axis)];
    if (classes == 0) in.refuse_shape(input, "at least one class");
    Shape expected = input.shape;
    expected.erase(expected.begin() + axis);
    in.expect_shape(targets, expected);
    pass_.ids = in.ids(targets, classes, {pass_.options.ignore_index});
    const Index rows = product(expected);
    moved_ = AxisMove(input.shape, axis);
    pass_.input = moved_->to_last(in.values(input, {rows, classes}));
    if (pass_.options.reduction == LossReduction::kNone) output_shape_ = expected;
    const Index losses = pass_.options.reduction == LossReduction::kNone ? rows : 1;
    pass_.grad_output =
        loss_gradient(in.grad_output(output_shape_, {losses}), pass_.ids, pass_.options.reduction);
    places_ = {{"input", input.shape, &LayerOutcome::dinput}};
  }

  // --- Outputs ----------------------------------------------------------------------------------

  // The kernels are for something; of nothing the textbook makes nothing.
  bool has_empty() const {
    const auto empty = [](const Values& x) { return !x.absent() && x.size() == 0; };
    return empty(pass_.input) || empty(pass_.key) || empty(pass_.value) ||
           (pass_.layer == ApplyLayer::kEmbedding && pass_.ids.empty());
  }

  std::vector<Tensor> written(LayerOutcome& out) const {
    if (pass_.layer == ApplyLayer::kCrossEntropy) {
      out.output = reduced_loss(out.output, pass_.ids, pass_.options.reduction);
    } else if (moved_) {
      out.output = moved_->from_last(out.output);
    }
    if (moved_ && !out.dinput.absent()) out.dinput = moved_->from_last(out.dinput);
    const bool as_double = pass_.options.reference;
    std::vector<Tensor> files;
    files.push_back(owned_tensor("output", output_shape_, out.output, as_double));
    if (pass_.grad_output.absent()) return files;
    for (const InputPlace& place : places_) {
      const Values& gradient = out.*place.gradient;
      files.push_back(
          owned_tensor("grad." + std::string(place.name), place.shape, gradient, as_double));
    }
    if (!layout_) return files;
    for (const LaidOutTensor& place : layout_->tensors()) {
      files.push_back(owned_tensor("grad." + place.tensor->name, place.tensor->shape,
                                   layout_->take(place, out.gradients), as_double));
    }
    return files;
  }

  const TensorFile* parameters_;
  const TensorFile& inputs_;
  LayerPass pass_;
  std::optional<ParameterLayout> layout_;
  std::optional<AxisMove> moved_;
  Shape output_shape_;
  std::vector<InputPlace> places_;
};

constexpr auto kNames = [] {
  std::array<std::string_view, kLayers.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kLayers[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> apply_layer_names() { return kNames; }

std::optional<ApplyLayer> apply_layer_from_name(std::string_view name) {
  const auto it = std::ranges::find(kNames, name);
  if (it == kNames.end()) return std::nullopt;
  return static_cast<ApplyLayer>(it - kNames.begin());
}

std::vector<Tensor> apply(const Runtime& run, ApplyLayer layer, const ApplyOptions& options,
                          const TensorFile* parameters, const TensorFile& inputs) {
  return Application(layer, options, parameters, inputs).run(run);
}

}  // namespace prenorm
