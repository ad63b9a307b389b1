#include "prenorm/train/adamw.h"

#include <algorithm>
#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/kernels/adamw.h"

namespace prenorm {

double clip_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

AdamW::AdamW(ParameterRegistry& parameters, const Options& options)
    : parameters_(parameters),
      options_(options),
      first_(static_cast<std::size_t>(parameters.total_size()) * sizeof(float)),
      second_(static_cast<std::size_t>(parameters.total_size()) * sizeof(float)) {
  std::size_t offset = 0;
  for (const Parameter& p : parameters_) {
    if (p.grad.size() != p.value.size()) {
      throw Error("AdamW: expected a gradient for '" + p.name + "', found none");
    }
    offsets_.push_back(offset);
    offset += p.value.size();
  }
  offsets_.push_back(offset);
}

double AdamW::grad_norm(const Runtime& run) const {
  double sum = 0;
  for (const Parameter& p : std::as_const(parameters_)) {
    sum += kernels::sum_of_squares(run, p.grad);
  }
  return std::sqrt(sum);
}

AdamW::Result AdamW::step(const Runtime& run, double learning_rate) {
  Result result{.grad_norm = grad_norm(run)};
  if (!std::isfinite(result.grad_norm)) {
    parameters_.zero_grad();
    return result;
  }
  kernels::AdamWStep step{.learning_rate = learning_rate,
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .eps = options_.eps,
                          .step = ++steps_,
                          .grad_scale = clip_factor(result.grad_norm, options_.grad_clip)};
  std::size_t index = 0;
  for (Parameter& p : parameters_) {
    step.weight_decay = p.decays ? options_.weight_decay : 0.0;
    kernels::adamw(run, step, p.value, p.grad, first_moment(index), second_moment(index));
    ++index;
  }
  result.applied = true;
  return result;
}

std::span<float> AdamW::first_moment(std::size_t parameter) const {
  const std::size_t begin = offsets_[parameter];
  return first_.floats().subspan(begin, offsets_[parameter + 1] - begin);
}

std::span<float> AdamW::second_moment(std::size_t parameter) const {
  const std::size_t begin = offsets_[parameter];
  return second_.floats().subspan(begin, offsets_[parameter + 1] - begin);
}

}  // namespace prenorm
