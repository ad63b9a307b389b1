#include "prenorm/train/adamw.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/kernels/profile.h"

namespace prenorm {
namespace {

constexpr double kLargestNorm = 1e19;  // its square still is a float

std::size_t offset_of(const Parameter& p, const ParameterRegistry& parameters) {
  return static_cast<std::size_t>(p.value.data() - parameters.values().data());
}

}  // namespace

double clip_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

AdamW::AdamW(ParameterRegistry& parameters, const Options& options, int part, int parts)
    : parameters_(parameters),
      options_(options),
      part_(part),
      parts_(parts),
      chunks_(parameters, parts) {
  for (const Parameter& p : parameters_) {
    if (p.grad.size() != p.value.size()) {
      throw Error("AdamW: expected a gradient for '" + p.name + "', found none");
    }
  }
  sums_.resize(chunks_.count());
  if (own_size() == 0) return;
  first_ = Buffer(own_size() * sizeof(float));
  second_ = Buffer(own_size() * sizeof(float));
}

AdamW::Result AdamW::step(const Runtime& run, double learning_rate) {
  assert(owns_all());
  squares(run, sums_);
  return update(run, learning_rate, sums_);
}

double AdamW::grad_norm(const Runtime& run) const {
  std::vector<double> sums(chunks_.count());
  squares(run, sums);
  return chunks_.norm(sums);
}

// A parameter at a time, so that its chunks are summed side by side.
void AdamW::squares(const Runtime& run, std::span<double> sums) const {
  // The norm reads the gradient once; the update reads and writes it, the value and both moments.
  const ProfileScope scope(run, Part::kOptimizer, 0.0, 4.0 * static_cast<double>(own_size()));
  const std::size_t begin = own_begin(), end = begin + own_size();
  std::size_t chunk = 0;
  for (const Parameter& p : std::as_const(parameters_)) {
    const std::size_t at = offset_of(p, parameters_);
    const std::size_t from = std::max(at, begin), to = std::min(at + p.value.size(), end);
    if (from >= to) continue;
    const auto count =
        static_cast<std::size_t>(ceil_div(static_cast<Index>(to - from), kernels::kSquaresChunk));
    kernels::squares_of_chunks(run, p.grad.subspan(from - at, to - from),
                               sums.subspan(chunk, count));
    chunk += count;
  }
}

AdamW::Result AdamW::update(const Runtime& run, double learning_rate,
                            std::span<const double> squares) {
  const ProfileScope scope(run, Part::kOptimizer, 0.0, 32.0 * static_cast<double>(own_size()));
  const std::size_t begin = own_begin(), end = begin + own_size();
  Result result{.grad_norm = chunks_.norm(squares)};
  const double clip = clip_factor(result.grad_norm, options_.grad_clip);
  // A square beyond float's range would leave an infinite second moment behind for good.
  if (!(result.grad_norm * clip < kLargestNorm)) {
    std::ranges::fill(parameters_.grads().subspan(begin, end - begin), 0.0f);
    return result;
  }
  kernels::AdamWStep step{.learning_rate = learning_rate,
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .eps = options_.eps,
                          .step = ++steps_,
                          .grad_scale = clip};
  for (Parameter& p : parameters_) {
    const std::size_t at = offset_of(p, parameters_);
    const std::size_t from = std::max(at, begin), to = std::min(at + p.value.size(), end);
    if (from >= to) continue;
    const std::size_t count = to - from;
    step.weight_decay = p.decays ? options_.weight_decay : 0.0;
    kernels::adamw(run, step, p.value.subspan(from - at, count), p.grad.subspan(from - at, count),
                   own_first().subspan(from - begin, count),
                   own_second().subspan(from - begin, count));
  }
  result.applied = true;
  return result;
}

std::span<float> AdamW::all_first() const {
  return owns_all() ? own_first() : all_first_.floats().first(parameters_.values().size());
}

std::span<float> AdamW::all_second() const {
  return owns_all() ? own_second() : all_second_.floats().first(parameters_.values().size());
}

std::span<float> AdamW::first_moment(std::size_t parameter) const {
  const Parameter& p = parameters_[parameter];
  return all_first().subspan(offset_of(p, parameters_), p.value.size());
}

std::span<float> AdamW::second_moment(std::size_t parameter) const {
  const Parameter& p = parameters_[parameter];
  return all_second().subspan(offset_of(p, parameters_), p.value.size());
}

void AdamW::assemble() {
  if (owns_all() || all_first_.size() != 0) return;
  all_first_ = Buffer(parameters_.values().size_bytes());
  all_second_ = Buffer(parameters_.values().size_bytes());
  std::ranges::copy(own_first(), all_first().subspan(own_begin()).begin());
  std::ranges::copy(own_second(), all_second().subspan(own_begin()).begin());
}

void AdamW::keep_own() {
  if (owns_all() || all_first_.size() == 0) return;
  std::ranges::copy(all_first().subspan(own_begin(), own_size()), own_first().begin());
  std::ranges::copy(all_second().subspan(own_begin(), own_size()), own_second().begin());
  all_first_ = Buffer();
  all_second_ = Buffer();
}

std::size_t AdamW::moment_bytes() const {
  return first_.size() + second_.size() + all_first_.size() + all_second_.size();
}

}  // namespace prenorm
