#include "prenorm/layers/linear.h"

namespace prenorm {

static_assert(Layer<Linear>);

namespace {
constexpr auto kValue = kernels::Bf16Role::kValue, kGradient = kernels::Bf16Role::kGradient;
}  // namespace

Linear::Linear(ParameterRegistry& parameters, std::string name, Index in, Index out, bool bias)
    : name_(std::move(name)),
      in_(in),
      out_(out),
      weight_(parameters.add(name_ + ".weight", {in, out}, true)),
      bias_(bias ? &parameters.add(name_ + ".bias", {out}, false) : nullptr) {}

kernels::Right Linear::right(const Runtime& run) const {
  return packed_.serves(run) ? kernels::Right::panels(packed_)
                             : kernels::Right::plain(weight_.matrix());
}

void Linear::pack(const Runtime& run, kernels::WeightFormat format) {
  packed_ = kernels::PackedMatrix(run, kernels::Right::plain(weight_.matrix()), format);
}

void Linear::forward(const Runtime& run, ConstMatrix x, Matrix y, kernels::Epilogue then) const {
  check_shape("Linear", name_, "x", x, -1, in_);
  check_shape("Linear", name_, "y", y, x.dim(0), out_);
  then.bias = bias_ == nullptr ? ConstVector() : bias_->vector();
  if (products_ == Products::kFloat32) return kernels::matmul(run, x, right(run), y, then);
  kernels::matmul_bf16(run, products_, {x, kValue}, kernels::Right::plain(weight_.matrix()), kValue,
                       y, then);
}

// y = x W + b:  dx = dy Wᵀ,  dW = xᵀ dy,  db = Σ_n dy[n].
void Linear::backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, Matrix dx,
                      const kernels::Epilogue& then) {
  check_shape("Linear", name_, "x", x, -1, in_);
  check_shape("Linear", name_, "dy", dy, x.dim(0), out_);
  check_shape("Linear", name_, "dx", dx, x.dim(0), in_);
  if (bias_ != nullptr) kernels::add_column_sums(run, dy, bias_->grad_vector());
  const auto transposed = kernels::Right::transposed(weight_.matrix());
  if (products_ == Products::kFloat32) {
    kernels::matmul_transposed_accumulate(run, x, dy, weight_.grad_matrix());
    kernels::matmul(run, dy, transposed, dx, then);
    return;
  }
  kernels::matmul_transposed_accumulate_bf16(run, products_, {x, kValue}, {dy, kGradient},
                                             weight_.grad_matrix());
  kernels::matmul_bf16(run, products_, {dy, kGradient}, transposed, kValue, dx, then);
}

}  // namespace prenorm
