#include "prenorm/train/adamw.h"

#include <algorithm>
#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/kernels/profile.h"

namespace prenorm {
namespace {

constexpr double kLargestNorm = 1e19;  // its square still is a float

}  // namespace

double clip_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

AdamW::AdamW(ParameterRegistry& parameters, const Options& options)
    : parameters_(parameters),
      options_(options),
      first_(parameters.values().size_bytes()),
      second_(parameters.values().size_bytes()) {
  for (const Parameter& p : parameters_) {
    if (p.grad.size() != p.value.size()) {
      throw Error("AdamW: expected a gradient for '" + p.name + "', found none");
    }
    offsets_.push_back(static_cast<std::size_t>(p.value.data() - parameters.values().data()));
    sizes_.push_back(p.value.size());
  }
}

double AdamW::grad_norm(const Runtime& run) const {
  double sum = 0;
  for (const Parameter& p : std::as_const(parameters_)) {
    sum += kernels::sum_of_squares(run, p.grad);
  }
  return std::sqrt(sum);
}

AdamW::Result AdamW::step(const Runtime& run, double learning_rate) {
  // Value, gradient and both moments are read and written; the norm reads the gradient once more.
  const ProfileScope scope(run, Part::kOptimizer, 0.0,
                           36.0 * static_cast<double>(parameters_.total_size()));
  Result result{.grad_norm = grad_norm(run)};
  const double clip = clip_factor(result.grad_norm, options_.grad_clip);
  // A square beyond float's range would leave an infinite second moment behind for good.
  if (!(result.grad_norm * clip < kLargestNorm)) {
    parameters_.zero_grad();
    return result;
  }
  kernels::AdamWStep step{.learning_rate = learning_rate,
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .eps = options_.eps,
                          .step = ++steps_,
                          .grad_scale = clip};
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
  return first_.floats().subspan(offsets_[parameter], sizes_[parameter]);
}

std::span<float> AdamW::second_moment(std::size_t parameter) const {
  return second_.floats().subspan(offsets_[parameter], sizes_[parameter]);
}

}  // namespace prenorm
