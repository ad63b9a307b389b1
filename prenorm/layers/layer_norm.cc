#include "prenorm/layers/layer_norm.h"

#include "prenorm/kernels/layer_norm.h"

namespace prenorm {

static_assert(Layer<LayerNorm>);

LayerNorm::LayerNorm(ParameterRegistry& parameters, std::string name, Index features, double eps,
                     bool bias)
    : name_(std::move(name)),
      features_(features),
      eps_(eps),
      weight_(parameters.add(name_ + ".weight", {features}, false)),
      bias_(bias ? &parameters.add(name_ + ".bias", {features}, false) : nullptr) {}

LayerNorm::Saved LayerNorm::plan(Arena& arena, Index rows) const {
  return {arena.take<double, 1>({rows}), arena.take<double, 1>({rows})};
}

void LayerNorm::forward(const Runtime& run, ConstMatrix x, Matrix y, Saved& saved) const {
  check_shape("LayerNorm", name_, "x", x, -1, features_);
  check_shape("LayerNorm", name_, "y", y, x.dim(0), features_);
  kernels::layer_norm_forward(run, x, weight_.vector(), bias(), eps_, y, saved.mean, saved.rstd);
}

void LayerNorm::forward(const Runtime& run, ConstMatrix x, Matrix y) const {
  Saved nothing;
  forward(run, x, y, nothing);
}

void LayerNorm::backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, const Saved& saved,
                         ConstMatrix residual, Matrix dx) {
  check_shape("LayerNorm", name_, "dy", dy, x.dim(0), features_);
  check_shape("LayerNorm", name_, "dx", dx, x.dim(0), features_);
  kernels::layer_norm_backward(run, dy, x, weight_.vector(), saved.mean, saved.rstd, residual, dx,
                               weight_.grad_vector(),
                               bias_ == nullptr ? Vector() : bias_->grad_vector());
}

}  // namespace prenorm
