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

void Linear::check(Index x_rows, Index x_columns, ConstMatrix dx, ConstMatrix y,
                   std::string_view y_name) const {
  const float* none = nullptr;  // what is checked is its shape
  check_shape("Linear", name_, "x", ConstMatrix(none, {x_rows, x_columns}), -1, in_);
  check_shape("Linear", name_, y_name, y, x_rows, out_);
  if (dx) check_shape("Linear", name_, "dx", dx, x_rows, in_);
}

void Linear::forward(const Runtime& run, ConstMatrix x, Matrix y, kernels::Epilogue then) const {
  if (products_ != Products::kFloat32)
    return forward(run, kernels::Bf16Operand{x, kValue}, y, then);
  check(x.dim(0), x.dim(1), {}, y, "y");
  then.bias = bias_ == nullptr ? ConstVector() : bias_->vector();
  kernels::matmul(run, x, right(run), y, then);
}

void Linear::forward(const Runtime& run, const kernels::Bf16Operand& x, Matrix y,
                     kernels::Bf16Epilogue then) const {
  check(x.rows(), x.columns(), {}, y, "y");
  then.bias = bias_ == nullptr ? ConstVector() : bias_->vector();
  kernels::matmul_bf16(run, products_, x, kernels::Right::plain(weight_.matrix()), kValue, y, then);
}

// y = x W + b:  dx = dy Wᵀ,  dW = xᵀ dy,  db = Σ_n dy[n].
void Linear::backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, Matrix dx,
                      const kernels::Epilogue& then) {
  if (products_ != Products::kFloat32) {
    return backward(run, dy, kernels::Bf16Operand{x, kValue}, dx, then);
  }
  check(x.dim(0), x.dim(1), dx, dy, "dy");
  const auto weight_gradient = [&] {
    kernels::matmul_transposed_accumulate(run, x, dy, weight_.grad_matrix(),
                                          bias_ == nullptr ? Vector() : bias_->grad_vector());
  };
  const bool makes_x = static_cast<bool>(then.activated);
  if (!makes_x) weight_gradient();  // dx may stand where x does
  kernels::matmul(run, dy, kernels::Right::transposed(weight_.matrix()), dx, then);
  if (makes_x) weight_gradient();
}

void Linear::backward(const Runtime& run, ConstMatrix dy, const kernels::Bf16Operand& x, Matrix dx,
                      const kernels::Epilogue& then) {
  check(x.rows(), x.columns(), dx, dy, "dy");
  if (bias_ != nullptr) kernels::add_column_sums(run, dy, bias_->grad_vector());
  kernels::matmul_transposed_accumulate_bf16(run, products_, x, {dy, kGradient},
                                             weight_.grad_matrix());
  kernels::matmul_bf16(run, products_, {dy, kGradient},
                       kernels::Right::transposed(weight_.matrix()), kValue, dx, then);
}

}  // namespace prenorm
