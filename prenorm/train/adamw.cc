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
  cut();
}

// What is owned of each parameter, into stretches and chunks.
void AdamW::cut() {
  const std::size_t begin = own_begin(), end = begin + own_size();
  for (const Parameter& p : parameters_) {
    const std::size_t at = offset_of(p, parameters_);
    const std::size_t from = std::max(at, begin), to = std::min(at + p.value.size(), end);
    const auto each = [&](Index length, const auto& use) {
      const auto most = static_cast<std::size_t>(length);
      for (std::size_t n = from; n < to; n += most) use(n, std::min(most, to - n));
    };
    each(kernels::kAdamWStretch, [&](std::size_t n, std::size_t count) {
      stretches_.push_back({p.value.subspan(n - at, count), p.grad.subspan(n - at, count),
                            own_first().subspan(n - begin, count),
                            own_second().subspan(n - begin, count), p.decays});
    });
    each(kernels::kSquaresChunk, [&](std::size_t n, std::size_t count) {
      grad_chunks_.push_back(p.grad.subspan(n - at, count));
    });
  }
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

// All parameters' chunks in one loop, so that small ones keep all threads busy, too.
void AdamW::squares(const Runtime& run, std::span<double> sums) const {
  // The norm reads the gradient once; the update reads and writes it, the value and both moments.
  const ProfileScope scope(run, Part::kOptimizer, 0.0, 4.0 * static_cast<double>(own_size()));
  kernels::squares_of_chunks(run, grad_chunks_, sums);
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
                          .weight_decay = options_.weight_decay,
                          .step = ++steps_,
                          .grad_scale = clip};
  kernels::adamw(run, step, stretches_);
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
