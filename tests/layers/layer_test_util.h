// What the tests of the layers share: a layer with its input, its cotangent and its textbook, and
// what is to be shown of every layer: its output is the textbook's, each of its gradients is proved
// with dual numbers, a bug planted in any of them is found, and its bits are the same everywhere.
//
//   Subject s = ...;                                          // x, dy, run
//   expect_is_the_textbook(s, [](const auto& in) { return layer_norm(in[0], {in[1], in[2]}); });
//   expect_same_bits_everywhere(s);
#pragma once
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/layers/layer.h"
#include "prenorm/layers/transformer_block.h"
#include "prenorm/reference/adjoint.h"
#include "prenorm/reference/gpt.h"
#include "tests/kernels/kernel_test_util.h"
#include "tests/tolerances.h"

namespace prenorm {

using reference::random_tensor;
using reference::to_tensor;
using Tensor = reference::Tensor<double>;
using Tensors = std::vector<Tensor>;

// One forward and one backward pass; the numbers are floats.
struct Outcome {
  Tensor y;
  Tensors gradients;  // of the inputs, then of the parameters
};

struct Subject {
  Tensors x;  // the inputs, then the parameters in the order of their registry
  Tensor dy;
  std::function<Outcome(const Runtime&)> run;  // from gradients of zero
};

// --- Memory and parameters ----------------------------------------------------------------------

// What plan(arena) describes, in memory of its own that holds nothing but NaNs.
template <typename Views>
struct Placed {
  Buffer memory;
  Views views;
};
template <typename Plan>
auto place(const Plan& plan) {
  Arena measure;
  plan(measure);
  Placed<decltype(plan(measure))> placed{Buffer(std::max<std::size_t>(1, measure.used())), {}};
  std::memset(placed.memory.data(), 0xFF, placed.memory.size());
  Arena arena(placed.memory.bytes());
  placed.views = plan(arena);
  return placed;
}

inline void set_values(Parameter& p, const Tensor& values) {
  ASSERT_EQ(values.size(), p.size());
  for (Index i = 0; i < p.size(); ++i) {
    p.value[static_cast<std::size_t>(i)] = static_cast<float>(values[i]);
  }
}

// Memory, and random values: everywhere of order one, so that no gradient is negligible.
inline void fill(ParameterRegistry& parameters, std::uint64_t seed, double size = 0.7) {
  parameters.allocate(true);
  for (Parameter& p : parameters) set_values(p, random_tensor(p.shape, ++seed, size));
}

inline Tensor tensor_of(const std::vector<Index>& shape, std::span<const float> numbers) {
  Tensor out(shape);
  for (Index i = 0; i < out.size(); ++i) out[i] = numbers[static_cast<std::size_t>(i)];
  return out;
}
inline void append_values(const ParameterRegistry& parameters, Tensors& to) {
  for (const Parameter& p : parameters) to.push_back(tensor_of(p.shape, p.value));
}
inline void append_gradients(const ParameterRegistry& parameters, Tensors& to) {
  for (const Parameter& p : parameters) to.push_back(tensor_of(p.shape, p.grad));
}

// The tensor's rows as floats, with unused columns after each.
inline TestMatrix matrix_of(const Tensor& x, Index gap = 0) {
  TestMatrix m(x.rows(), x.columns(), gap);
  for (Index r = 0; r < x.rows(); ++r) {
    for (Index c = 0; c < x.columns(); ++c) m.at(r, c) = static_cast<float>(x(r, c));
  }
  return m;
}

// in[i], or absent where there are fewer: a bias that the layer may not have.
template <typename S>
reference::Tensor<S> optional(const std::vector<reference::Tensor<S>>& in, std::size_t i) {
  return i < in.size() ? in[i] : reference::Tensor<S>();
}

inline reference::Activation textbook(Activation act) {
  if (act == Activation::kRelu) return reference::Activation::kRelu;
  return act == Activation::kGelu ? reference::Activation::kGelu : reference::Activation::kGeluTanh;
}
inline reference::NormPlacement textbook(NormPlacement norm) {
  return norm == NormPlacement::kPre ? reference::NormPlacement::kPre
                                     : reference::NormPlacement::kPost;
}

// A layer of rows, over the shape of x: forward(), then backward() with dx in memory of its own.
template <Layer L>
Subject subject_of(L& layer, ParameterRegistry& parameters, const Tensor& x, const Tensor& dy) {
  Subject s{{x}, dy, {}};
  append_values(parameters, s.x);
  s.run = [&layer, &parameters, x, dy](const Runtime& run) {
    auto saved = place([&](Arena& arena) { return layer.plan(arena, x.rows()); });
    const TestMatrix in = matrix_of(x, 3), din = matrix_of(dy, 1);
    TestMatrix y(dy.rows(), dy.columns(), 2), dx(x.rows(), x.columns(), 5);
    parameters.zero_grad();
    std::as_const(layer).forward(run, in.view(), y.view(), saved.views);
    layer.backward(run, din.view(), in.view(), saved.views, dx.view());
    Outcome out{to_tensor(y.view()).reshaped(dy.shape()),
                {to_tensor(dx.view()).reshaped(x.shape())}};
    append_gradients(parameters, out.gradients);
    return out;
  };
  return s;
}

// --- What is shown ------------------------------------------------------------------------------

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.values().data(), b.values().data(), a.values().size() * sizeof(double)) == 0;
}
inline void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(same_bits(a.y, b.y)) << "output";
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    EXPECT_TRUE(same_bits(a.gradients[i], b.gradients[i])) << "gradient " << i;
  }
}

inline void expect_same_bits_everywhere(const Subject& s) {
  const Outcome want = s.run(Runtime(Runtime::Options{1, "auto"}));
  on_every_runtime([&](const Runtime& run) { expect_same_bits(s.run(run), want); });
}

// PyTorch's assert_close with its defaults for float32.
inline void expect_close(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  for (Index i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance::kFloatAtol + tolerance::kFloatRtol * std::abs(want[i]))
        << "element " << i;
  }
}

// How far `gradients` is from the adjoint of f along random directions in all of x at once, or in
// x[only] alone: |error| / Σ|terms|, both added up over the directions, because a bias of ten
// numbers gives ten terms a direction, too few for roundings to average out.
template <typename F>
double adjoint_error(const F& f, const Subject& s, const Tensors& gradients, Index only = -1) {
  double error = 0.0, terms = 0.0;
  for (std::uint64_t direction = 0; direction < (only < 0 ? 1 : 4); ++direction) {
    Tensors v = reference::random_like(s.x, 1000 + 100 * direction);
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (only >= 0 && static_cast<Index>(i) != only) v[i] = reference::zeros_like(v[i]);
    }
    const auto adjoint = reference::check_adjoint(f, s.x, v, s.dy, gradients);
    error += adjoint.relative_error() * adjoint.terms;
    terms += adjoint.terms;
  }
  return error / terms;
}

// Planted bugs of any layer: a gradient that is missing, and one number of it with the wrong sign.
template <typename F>
void expect_planted_bugs_are_found(const F& f, const Subject& s, const Tensors& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    SCOPED_TRACE("planted in gradient " + std::to_string(i));
    Tensors bug = gradients;
    bug[i] = reference::zeros_like(bug[i]);
    EXPECT_GT(adjoint_error(f, s, bug), tolerance::kPlantedBug);
    bug = gradients;
    const auto larger = [](double a, double b) { return std::abs(a) < std::abs(b); };
    double& largest = *std::max_element(bug[i].begin(), bug[i].end(), larger);
    largest = -largest;
    EXPECT_GT(adjoint_error(f, s, bug), tolerance::kPlantedBug);
  }
}

// f is the textbook, from a vector of tensors like s.x, on any scalar.
template <typename F>
void expect_is_the_textbook(const Subject& s, const F& f) {
  const Outcome got = s.run(Runtime(Runtime::Options{2, "auto"}));
  expect_close(got.y, f(s.x));
  ASSERT_EQ(got.gradients.size(), s.x.size());
  EXPECT_LE(adjoint_error(f, s, got.gradients), tolerance::kAdjointFloat);
  for (Index i = 0; i < static_cast<Index>(s.x.size()); ++i) {
    EXPECT_LE(adjoint_error(f, s, got.gradients, i), tolerance::kAdjointFloat) << "gradient " << i;
  }
  expect_planted_bugs_are_found(f, s, got.gradients);
}

// Calls body() and expects an error of this type with exactly this text.
template <typename E, typename Body>
void expect_error(const Body& body, const std::string& text) {
  EXPECT_THAT(body, testing::ThrowsMessage<E>(testing::StrEq(text)));
}

}  // namespace prenorm
