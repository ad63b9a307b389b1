// Runs kernels on tensors from a file, so that bench/accuracy.py can hold their results against
// references and PyTorch's.
//
//   prenorm_accuracy IN.safetensors OUT.safetensors      prints the instruction set
//
// A tensor's name is CASE.OPERATION.ARGUMENT; results are CASE.RESULT. Operations: exp, tanh, erf;
// gelu, gelu-tanh (y, slope); layer-norm (x [N, C], weight, bias, dy → y, dx, dweight, dbias);
// softmax (x [N, V]); cross-entropy (x [N, V], targets [N] → loss, in double); matmul (a [M, K],
// b [K, N]) and weight-gradient (a [K, M], b [K, N]).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/accuracy.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/math-inl.h"

#ifndef PRENORM_BENCH_ACCURACY_TARGET  // this file is read once for each target
#define PRENORM_BENCH_ACCURACY_TARGET
namespace prenorm::kernels {
struct MathTarget {
  using Function = void (*)(const float* x, float* y, Index count);  // count: a multiple of 16
  Function exp, tanh, erf;
};
}  // namespace prenorm::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
#define PRENORM_APPLY(name)                                  \
  void apply_##name(const float* x, float* y, Index count) { \
    for (Index i = 0; i < count; i += kFloatLanes) {         \
      hn::StoreU(name(hn::LoadU(DF(), x + i)), DF(), y + i); \
    }                                                        \
  }
PRENORM_APPLY(exp)
PRENORM_APPLY(tanh)
PRENORM_APPLY(erf)
#undef PRENORM_APPLY
extern const MathTarget kMathTarget;
const MathTarget kMathTarget = {apply_exp, apply_tanh, apply_erf};
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstdio>
#include <deque>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/kernels/activation.h"
#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/layer_norm.h"
#include "prenorm/kernels/matmul.h"

namespace prenorm::kernels {
namespace {

PRENORM_TARGET_TABLE(MathTarget, math_target, kMathTarget)

constexpr double kEps = 1e-5;  // torch.nn.LayerNorm's

class Cases {
 public:
  explicit Cases(const char* path) : file_(path) {
    for (const Tensor& t : file_.tensors()) {
      const std::size_t first = t.name.find('.'), last = t.name.rfind('.');
      if (first == last) throw DataError(t.name + ": expected CASE.OPERATION.ARGUMENT");
      operations_[t.name.substr(0, first)] = t.name.substr(first + 1, last - first - 1);
    }
  }

  void run_all() {
    for (const auto& [name, operation] : operations_) run_one(name, operation);
  }
  void save(const char* path) { save_safetensors(path, std::move(results_)); }
  const Runtime& runtime() const { return run_; }

 private:
  struct Input {
    std::vector<float> values;
    std::vector<Index> shape;
    ConstMatrix matrix() const { return {values.data(), {shape.at(0), shape.at(1)}}; }
    ConstVector vector() const { return {values.data(), {shape.at(0)}}; }
  };

  const Tensor& find(const std::string& name) const {
    const Tensor* t = file_.find(name);
    if (t == nullptr) throw DataError(name + ": expected this tensor, found none");
    return *t;
  }
  Input input(const char* argument) const {
    const Tensor& t = find(prefix_ + argument);
    return {file_.floats(t), t.shape};
  }
  // Memory of a result, kept until it is written.
  Matrix matrix(const char* result, Index rows, Index columns) {
    std::vector<float>& memory =
        kept_.emplace_back(static_cast<std::size_t>(round_up(rows * columns, 16)));
    const std::span values(memory.data(), static_cast<std::size_t>(rows * columns));
    results_.push_back(tensor(case_ + result, {rows, columns}, std::span<const float>(values)));
    return {values.data(), {rows, columns}};
  }

  void run_one(const std::string& name, const std::string& operation) {
    case_ = name + ".";
    prefix_ = case_ + operation + ".";
    const MathTarget& math = math_target(run_.isa());
    if (operation == "exp") return elementwise(math.exp);
    if (operation == "tanh") return elementwise(math.tanh);
    if (operation == "erf") return elementwise(math.erf);
    if (operation == "layer-norm") return layer_norm();
    if (operation == "softmax") return softmax_rows();
    if (operation == "cross-entropy") return cross_entropy();
    if (operation == "matmul") return product();
    if (operation == "weight-gradient") return weight_gradient();
    const auto activation = activation_from_name(operation);
    if (!activation) throw DataError(operation + ": expected a known operation");
    gelu(*activation);
  }

  void elementwise(MathTarget::Function function) {
    Input x = input("x");
    const auto count = static_cast<Index>(x.values.size());
    const Matrix y = matrix("y", 1, count);
    x.values.resize(static_cast<std::size_t>(round_up(count, 16)));
    function(x.values.data(), y.data(), round_up(count, 16));
  }

  void gelu(Activation activation) {
    const Input x = input("x");
    const auto count = static_cast<Index>(x.values.size());
    const ConstMatrix row(x.values.data(), {1, count});
    const std::vector<float> ones(x.values.size(), 1.0f);
    activation_forward(run_, activation, row, matrix("y", 1, count));
    activation_backward(run_, activation, {ones.data(), {1, count}}, row,
                        matrix("slope", 1, count));
  }

  void layer_norm() {
    const Input x = input("x"), weight = input("weight"), bias = input("bias"), dy = input("dy");
    const Index rows = x.shape.at(0), width = x.shape.at(1);
    std::vector<double> mean(static_cast<std::size_t>(rows)), rstd(mean.size());
    layer_norm_forward(run_, x.matrix(), weight.vector(), bias.vector(), kEps,
                       matrix("y", rows, width), {mean.data(), {rows}}, {rstd.data(), {rows}});
    const Matrix dx = matrix("dx", rows, width), dweight = matrix("dweight", 1, width),
                 dbias = matrix("dbias", 1, width);
    layer_norm_backward(run_, dy.matrix(), x.matrix(), weight.vector(), {mean.data(), {rows}},
                        {rstd.data(), {rows}}, {}, dx, dweight[0], dbias[0]);
  }

  void softmax_rows() {
    const Input x = input("x");
    softmax(run_, x.matrix(), matrix("y", x.shape.at(0), x.shape.at(1)));
  }

  void cross_entropy() {
    const Input x = input("x");
    const std::vector<Index> ids = file_.integers(find(prefix_ + "targets"));
    const std::vector<TokenId> targets(ids.begin(), ids.end());
    const auto rows = static_cast<Index>(targets.size());
    std::vector<double>& losses = losses_.emplace_back(targets.size());
    cross_entropy_forward(run_, x.matrix(), {targets.data(), {rows}}, {losses.data(), {rows}});
    results_.push_back(tensor(case_ + "loss", {rows}, std::span<const double>(losses)));
  }

  void product() {
    const Input a = input("a"), b = input("b");
    matmul(run_, a.matrix(), Right::plain(b.matrix()), matrix("c", a.shape.at(0), b.shape.at(1)),
           {});
  }

  void weight_gradient() {
    const Input a = input("a"), b = input("b");
    matmul_transposed_accumulate(run_, a.matrix(), b.matrix(),
                                 matrix("c", a.shape.at(1), b.shape.at(1)));
  }

  Runtime run_;
  Safetensors file_;
  std::map<std::string, std::string> operations_;
  std::string case_, prefix_;
  std::deque<std::vector<float>> kept_;
  std::deque<std::vector<double>> losses_;
  std::vector<Tensor> results_;
};

}  // namespace
}  // namespace prenorm::kernels

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: prenorm_accuracy IN.safetensors OUT.safetensors\n");
    return 2;
  }
  try {
    prenorm::kernels::Cases cases(argv[1]);
    cases.run_all();
    cases.save(argv[2]);
    std::printf("%s\n", std::string(prenorm::isa_name(cases.runtime().isa())).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "prenorm_accuracy: %s\n", error.what());
    return 3;
  }
  return 0;
}
#endif
