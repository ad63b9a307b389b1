#include "prenorm/study/kernel_attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/layers/multihead_attention.h"
#include "prenorm/study/kernel_memory.h"

namespace prenorm {
namespace {

LayerOutcome self_attention(const Runtime& run, const LayerPass& pass) {
  const Index batch = pass.input.dim(0), time = pass.input.dim(1), width = pass.input.columns();
  ParameterRegistry parameters;
  MultiheadAttention layer(parameters, "attn", width, pass.options.heads, true, pass.options.causal,
                           pass.options.scale);
  fill_parameters(parameters, pass.parameters);
  const FloatMask mask(pass.mask, {batch, pass.options.heads, time, time});
  auto saved = place([&](Arena& arena) { return layer.plan(arena, batch, time); });
  const FloatMatrix x(pass.input);
  FloatMatrix y(x.rows(), width);
  layer.forward(run, batch, time, x.view(), y.view(), saved.views, {}, {}, mask.view());
  LayerOutcome out;
  out.output = y.values(pass.input.shape());
  if (pass.grad_output.absent()) return out;
  const FloatMatrix dy(pass.grad_output);
  FloatMatrix dx(x.rows(), width);
  layer.backward(run, batch, time, dy.view(), x.view(), saved.views, dx.view(), {}, mask.view());
  out.dinput = dx.values(pass.input.shape());
  out.gradients = gradients_of(parameters, pass.parameters);
  return out;
}

// The attention kernel with its memory, for queries [B, T, C] and keys and values [B, S, C].
class AttentionCore {
 public:
  AttentionCore(const Runtime& run, const LayerPass& pass, Index heads, Index head_width)
      : run_(run) {
    shape_.batch = pass.input.dim(0);
    shape_.time = pass.input.dim(1);
    shape_.keys = pass.key.dim(1);
    shape_.heads = heads;
    shape_.head_width = head_width;
    shape_.causal = pass.options.causal;
    shape_.scale = pass.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_width)));
    mask_.emplace(pass.mask,
                  View<const float, 4>::Shape{shape_.batch, heads, shape_.time, shape_.keys});
    const Index rows = shape_.batch * shape_.time;
    out_ = FloatMatrix(rows, shape_.width());
    row_max_.resize(static_cast<std::size_t>(rows * heads));
    row_sum_.resize(row_max_.size());
  }

  Matrix forward(const kernels::AttentionInputs& in) {
    kernels::attention_forward(run_, shape_, in, mask_->view(), out_.view(), vector(row_max_),
                               sums(), {});
    return out_.view();
  }
  void backward(ConstMatrix dout, const kernels::AttentionInputs& in,
                const kernels::AttentionGradients& gradients) {
    kernels::attention_backward(run_, shape_, dout, in, mask_->view(), out_.view(),
                                vector(row_max_), sums(), gradients, {});
  }

 private:
  DoubleVector sums() { return {row_sum_.data(), {static_cast<Index>(row_sum_.size())}}; }
  static Vector vector(std::vector<float>& v) { return {v.data(), {static_cast<Index>(v.size())}}; }

  const Runtime& run_;
  kernels::AttentionShape shape_;
  std::optional<FloatMask> mask_;
  FloatMatrix out_;
  std::vector<float> row_max_;
  std::vector<double> row_sum_;
};

// The kernel has one width for queries and values; columns of zeros change neither.
LayerOutcome scaled_dot_product_attention(const Runtime& run, LayerPass pass) {
  const Index width = std::max(pass.input.columns(), pass.value.columns());
  if (!pass.options.scale) {
    pass.options.scale = 1.0 / std::sqrt(static_cast<double>(pass.input.columns()));
  }
  AttentionCore core(run, pass, 1, width);
  const FloatMatrix q(pass.input, width), k(pass.key, width), v(pass.value, width);
  const kernels::AttentionInputs in{q.view(), k.view(), v.view()};
  const Index batch = pass.input.dim(0), time = pass.input.dim(1);
  LayerOutcome out;
  out.output = values_of(core.forward(in), {batch, time, pass.value.columns()});
  if (pass.grad_output.absent()) return out;
  const FloatMatrix dout(pass.grad_output, width);
  FloatMatrix dq(q.rows(), width), dk(k.rows(), width), dv(v.rows(), width);
  core.backward(dout.view(), in, {dq.view(), dk.view(), dv.view()});
  out.dinput = dq.values(pass.input.shape());
  out.dkey = dk.values(pass.key.shape());
  out.dvalue = dv.values(pass.value.shape());
  return out;
}

// The packed projection cut into those of queries, keys and values, and back.
constexpr const char* kParts[] = {"q", "k", "v"};

ParameterValues unpacked(const ParameterValues& values) {
  ParameterValues parts;
  for (const auto& [name, packed] : values) {
    if (!name.starts_with("attn.c_attn")) {
      parts[name] = packed;
      continue;
    }
    const Index width = packed.columns() / 3;
    for (Index part = 0; part < 3; ++part) {
      Values p(reference::with_columns(packed, width));
      for (Index r = 0; r < p.rows(); ++r) {
        std::copy_n(packed.row(r) + part * width, width, p.row(r));
      }
      parts[kParts[part] + name.substr(std::string_view("attn.c_attn").size())] = std::move(p);
    }
  }
  return parts;
}

ParameterValues repacked(const ParameterValues& parts, const ParameterValues& like) {
  ParameterValues values;
  for (const auto& [name, packed] : like) {
    if (!name.starts_with("attn.c_attn")) {
      values[name] = parts.at(name);
      continue;
    }
    Values& whole = values[name] = Values(packed.shape());
    const Index width = packed.columns() / 3;
    for (Index part = 0; part < 3; ++part) {
      const Values& p =
          parts.at(kParts[part] + name.substr(std::string_view("attn.c_attn").size()));
      for (Index r = 0; r < p.rows(); ++r) {
        std::copy_n(p.row(r), width, whole.row(r) + part * width);
      }
    }
  }
  return values;
}

LayerOutcome cross_attention(const Runtime& run, const LayerPass& pass) {
  const Index width = pass.input.columns(), heads = pass.options.heads;
  ParameterRegistry parameters;
  Linear to_q(parameters, "q", width, width), to_k(parameters, "k", width, width);
  Linear to_v(parameters, "v", width, width), to_out(parameters, "attn.c_proj", width, width);
  const ParameterValues parts = unpacked(pass.parameters);
  fill_parameters(parameters, parts);

  const FloatMatrix x(pass.input), key(pass.key), value(pass.value);
  FloatMatrix q(x.rows(), width), k(key.rows(), width), v(key.rows(), width), y(x.rows(), width);
  to_q.forward(run, x.view(), q.view());
  to_k.forward(run, key.view(), k.view());
  to_v.forward(run, value.view(), v.view());
  AttentionCore core(run, pass, heads, width / heads);
  const kernels::AttentionInputs in{q.view(), k.view(), v.view()};
  const Matrix attended = core.forward(in);
  to_out.forward(run, attended, y.view());
  LayerOutcome out;
  out.output = y.values(pass.input.shape());
  if (pass.grad_output.absent()) return out;

  const FloatMatrix dy(pass.grad_output);
  FloatMatrix dattended(x.rows(), width), dq(x.rows(), width), dk(key.rows(), width);
  FloatMatrix dv(key.rows(), width), dx(x.rows(), width), dkey(key.rows(), width);
  FloatMatrix dvalue(key.rows(), width);
  to_out.backward(run, dy.view(), attended, dattended.view());
  core.backward(dattended.view(), in, {dq.view(), dk.view(), dv.view()});
  to_q.backward(run, dq.view(), x.view(), dx.view());
  to_k.backward(run, dk.view(), key.view(), dkey.view());
  to_v.backward(run, dv.view(), value.view(), dvalue.view());
  out.dinput = dx.values(pass.input.shape());
  out.dkey = dkey.values(pass.key.shape());
  out.dvalue = dvalue.values(pass.value.shape());
  out.gradients = repacked(gradients_of(parameters, parts), pass.parameters);
  return out;
}

}  // namespace

LayerOutcome kernel_attention(const Runtime& run, const LayerPass& pass) {
  if (pass.layer == ApplyLayer::kScaledDotProductAttention) {
    return scaled_dot_product_attention(run, pass);
  }
  return pass.key.absent() ? self_attention(run, pass) : cross_attention(run, pass);
}

}  // namespace prenorm
