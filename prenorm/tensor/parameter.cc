#include "prenorm/tensor/parameter.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

// Every parameter starts on a cache line, so that no two threads share one at a boundary.
constexpr std::size_t kFloatsPerLine = 16;

std::size_t padded(const Parameter& p) {
  return (static_cast<std::size_t>(p.size()) + kFloatsPerLine - 1) / kFloatsPerLine *
         kFloatsPerLine;
}

}  // namespace

Index Parameter::size() const {
  Index n = 1;
  for (Index d : shape) n *= d;
  return n;
}
ConstMatrix Parameter::matrix() const { return {value.data(), {shape[0], shape[1]}}; }
ConstVector Parameter::vector() const { return {value.data(), {shape[0]}}; }
Matrix Parameter::grad_matrix() const { return {grad.data(), {shape[0], shape[1]}}; }
Vector Parameter::grad_vector() const { return {grad.data(), {shape[0]}}; }

Parameter& ParameterRegistry::add(std::string name, std::vector<Index> shape, bool decays) {
  if (find(name) != nullptr) throw Error("parameter '" + name + "' is registered twice");
  Parameter& added =
      parameters_.emplace_back(Parameter{std::move(name), std::move(shape), {}, {}, decays});
  by_name_.emplace(added.name, &added);
  return added;
}

void ParameterRegistry::allocate(bool with_gradients) {
  const std::size_t bytes = total() * sizeof(float);
  values_ = Buffer(bytes);
  if (with_gradients) grads_ = Buffer(bytes);
  std::size_t offset = 0;
  for (Parameter& p : parameters_) {
    const auto size = static_cast<std::size_t>(p.size());
    p.value = values_.floats().subspan(offset, size);
    if (with_gradients) p.grad = grads_.floats().subspan(offset, size);
    offset += padded(p);
  }
}

const Parameter* ParameterRegistry::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

Index ParameterRegistry::total_size() const {
  Index n = 0;
  for (const Parameter& p : parameters_) n += p.size();
  return n;
}

void ParameterRegistry::borrow(Parameter& parameter, std::span<const float> values,
                               std::shared_ptr<const void> owner) {
  assert(static_cast<Index>(values.size()) == parameter.size());
  parameter.value = {const_cast<float*>(values.data()), values.size()};
  owners_.push_back(std::move(owner));
}

std::span<float> ParameterRegistry::values() const {
  assert(owners_.empty());
  return values_.floats().first(total());
}

std::span<float> ParameterRegistry::grads() const {
  return grads_.size() == 0 ? std::span<float>() : grads_.floats().first(total());
}

void ParameterRegistry::zero_grad() { std::ranges::fill(grads(), 0.0f); }

std::size_t ParameterRegistry::total() const {
  std::size_t n = 0;
  for (const Parameter& p : parameters_) n += padded(p);
  return n;
}

}  // namespace prenorm
