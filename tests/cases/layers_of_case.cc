#include "tests/cases/layers_of_case.h"

#include <algorithm>
#include <set>

namespace prenorm::cases {
namespace {

// B and T of [B, T, C] or [T, C].
std::pair<Index, Index> batch_and_time(const Shape& shape) {
  if (shape.size() == 2) return {1, shape[0]};
  if (shape.size() == 3) return {shape[0], shape[1]};
  throw BadCase("input.x: expected [B, T, C] or [T, C], found " + shape_name(shape));
}

// Plans with `plan` twice: for the size, and for the addresses in `memory`.
template <typename Plan>
auto placed(Buffer& memory, const Plan& plan) {
  Arena measure;
  plan(measure);
  memory = Buffer(std::max<std::size_t>(measure.used(), Arena::kAlignment));
  Arena place(memory.bytes());
  return plan(place);
}

std::vector<TorchParameters::Pair> block_names() {
  std::vector<TorchParameters::Pair> names;
  for (const auto& [torch, own] :
       std::vector<std::pair<std::string, std::string>>{{"self_attn.in_proj_", "attn.c_attn."},
                                                        {"self_attn.out_proj.", "attn.c_proj."},
                                                        {"linear1.", "mlp.c_fc."},
                                                        {"linear2.", "mlp.c_proj."},
                                                        {"norm1.", "ln_1."},
                                                        {"norm2.", "ln_2."}}) {
    for (const char* part : {"weight", "bias"})
      names.push_back({torch + part, "block." + own + part});
  }
  return names;
}

}  // namespace

const Parameter* TorchParameters::find(const std::string& torch) const {
  const auto pair = std::ranges::find(names_, torch, &Pair::torch);
  return pair == names_.end() ? nullptr : registry_.find(pair->own);
}

void TorchParameters::set(const std::string& torch, const Array& values) {
  const Parameter* parameter = find(torch);
  if (parameter == nullptr) throw BadCase("params: '" + torch + "': not known");
  const Array own = parameter->shape.size() == 2 ? transposed(values) : values;
  if (own.shape != parameter->shape) {
    throw BadCase("params: '" + torch + "': expected the transpose of " +
                  shape_name(parameter->shape) + ", found " + shape_name(values.shape));
  }
  std::ranges::transform(own.values, parameter->value.begin(),
                         [](double value) { return static_cast<float>(value); });
}

void TorchParameters::load(const Json& object) {
  std::set<std::string> given;
  for (const auto& [name, values] : object.items()) {
    set(name, array_from(values));
    given.insert(name);
  }
  for (const std::string& name : names()) {
    if (!given.contains(name)) throw BadCase("params: '" + name + "': missing");
  }
}

Array TorchParameters::gradient(const std::string& torch) const {
  const Parameter* parameter = find(torch);
  if (parameter == nullptr) throw BadCase("param_grads: '" + torch + "': not known");
  const Array own = array_of(parameter->shape, parameter->grad);
  return own.shape.size() == 2 ? transposed(own) : own;
}

std::vector<std::string> TorchParameters::names() const {
  std::vector<std::string> names;
  for (const Pair& pair : names_) {
    if (registry_.find(pair.own) != nullptr) names.push_back(pair.torch);
  }
  return names;
}

BlockOfCase::BlockOfCase(const TransformerBlock::Options& options)
    : block_(registry_, "block", options), parameters_(registry_, block_names()) {
  registry_.allocate(true);
}

Array BlockOfCase::forward(const Runtime& run, const Array& x) {
  std::tie(batch_, time_) = batch_and_time(x.shape);
  saved_ = placed(memory_, [&](Arena& arena) {
    return block_.plan(arena, batch_, time_, block_.plan_shared(arena, batch_, time_, true));
  });
  x_ = floats_from(x);
  Floats y(x.shape);
  block_.forward(run, batch_, time_, std::as_const(x_).matrix(), y.matrix(), saved_);
  return array_of(y);
}

Array BlockOfCase::backward(const Runtime& run, const Array& dy) {
  if (dy.shape != x_.shape) throw BadCase("input.dy: expected the shape of x");
  registry_.zero_grad();
  Floats gradient = floats_from(dy);
  block_.backward(run, batch_, time_, std::as_const(x_).matrix(), saved_, gradient.matrix());
  return array_of(gradient);
}

AttentionOfCase::AttentionOfCase(Index width, Index heads, bool bias, bool causal)
    : attention_(registry_, "attn", width, heads, bias, causal),
      parameters_(registry_, {{"in_proj_weight", "attn.c_attn.weight"},
                              {"in_proj_bias", "attn.c_attn.bias"},
                              {"out_proj.weight", "attn.c_proj.weight"},
                              {"out_proj.bias", "attn.c_proj.bias"}}) {
  registry_.allocate(true);
}

Array AttentionOfCase::forward(const Runtime& run, const Array& x,
                               const kernels::AttentionMask& mask) {
  std::tie(batch_, time_) = batch_and_time(x.shape);
  mask_ = mask;
  saved_ = placed(memory_, [&](Arena& arena) { return attention_.plan(arena, batch_, time_); });
  x_ = floats_from(x);
  Floats y(x.shape);
  attention_.forward(run, batch_, time_, std::as_const(x_).matrix(), y.matrix(), saved_, {}, {},
                     mask_);
  return array_of(y);
}

Array AttentionOfCase::backward(const Runtime& run, const Array& dy) {
  if (dy.shape != x_.shape) throw BadCase("input.dy: expected the shape of x");
  registry_.zero_grad();
  const Floats out = floats_from(dy);
  Floats dx(dy.shape);
  attention_.backward(run, batch_, time_, out.matrix(), std::as_const(x_).matrix(), saved_,
                      dx.matrix(), {}, mask_);
  return array_of(dx);
}

}  // namespace prenorm::cases
