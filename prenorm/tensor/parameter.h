// Parameters: named tensors with a gradient beside them, kept in one registry per model so that
// the optimizer, the checkpoint and the gradient norm are flat loops.
#pragma once
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "prenorm/tensor/buffer.h"
#include "prenorm/tensor/view.h"

namespace prenorm {

struct Parameter {
  std::string name;          // Hugging Face's state_dict key, e.g. "transformer.h.0.ln_1.weight"
  std::vector<Index> shape;  // one or two axes
  std::span<float> value;
  std::span<float> grad;  // backward() adds here; empty in a model made for inference
  bool decays = true;     // AdamW weight decay applies

  Index size() const;
  // The tensor as a matrix [shape[0], shape[1]] or a vector [shape[0]].
  ConstMatrix matrix() const;
  ConstVector vector() const;
  Matrix grad_matrix() const;
  Vector grad_vector() const;
};

class ParameterRegistry {
 public:
  ParameterRegistry() = default;
  ParameterRegistry(const ParameterRegistry&) = delete;
  ParameterRegistry& operator=(const ParameterRegistry&) = delete;

  // Adds a parameter; the reference stays valid for the registry's life.
  // Throws Error when the name is taken.
  Parameter& add(std::string name, std::vector<Index> shape, bool decays = true);

  // One block for all values and, if wanted, one for all gradients; both zero. Call once.
  void allocate(bool with_gradients);
  // The values of `parameter`, one of these, are those at `values` from now on: elsewhere, in
  // memory that `owner` keeps and that must not be written to.
  void borrow(Parameter& parameter, std::span<const float> values,
              std::shared_ptr<const void> owner);

  const Parameter* find(std::string_view name) const;
  Index total_size() const;  // elements of all parameters
  // Requires: none is borrowed.
  std::span<float> values() const;
  std::span<float> grads() const;  // empty without gradients
  void zero_grad();

  const Parameter& operator[](std::size_t index) const { return parameters_[index]; }
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  std::size_t count() const { return parameters_.size(); }

 private:
  std::size_t total() const;

  std::deque<Parameter> parameters_;  // deque: a layer keeps a Parameter& for life
  std::unordered_map<std::string_view, const Parameter*> by_name_;
  Buffer values_, grads_;
  std::vector<std::shared_ptr<const void>> owners_;  // of what is borrowed
};

}  // namespace prenorm
