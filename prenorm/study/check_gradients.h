// Gradients against dual numbers: for a direction v and a cotangent dy, ⟨dy, J v⟩ by the textbook
// on dual numbers equals ⟨Jᵀ dy, v⟩ by the backward pass (reference/adjoint.h).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "prenorm/reference/adjoint.h"
#include "prenorm/study/check_subject.h"

namespace prenorm {

// The error of one gradient, and up to which it is the rounding of floats.
struct GradientError {
  double relative = 0.0, bound = 0.0;
};

// A function of tensors on dual numbers.
using DualTensor = reference::Tensor<reference::Dual<double>>;
using DualFunction = std::function<DualTensor(const std::vector<DualTensor>&)>;

// `gradients` are those of ⟨dy, f(x)⟩ for the tensors of x by the pass under test. The direction is
// random, leaning towards the gradients, and gives each tensor of x the same share of the sum, so
// that a wrong one shows whatever its size. The bound is what floats round, or, where f answers a
// rounding of its input with more than that (sharp attention), four times the largest of such
// answers.
GradientError gradient_error(const DualFunction& f, const std::vector<Values>& x, const Values& dy,
                             const std::vector<Values>& gradients, std::uint64_t seed);

// The loss of the model's corner (model_crop.h) with the gradients of all its parameters: against
// dual numbers, and bit for bit on any number of threads. Nothing for a vocabulary of one token.
std::vector<Property> check_model_gradients(const CheckContext& context);

}  // namespace prenorm
