#include "prenorm/study/check_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "prenorm/kernels/isa.h"
#include "prenorm/study/gpt_pass.h"
#include "prenorm/study/model_crop.h"

namespace prenorm {
namespace {

// Kernels on floats: each gradient carries roundings of 2⁻²⁴ = 6e-8, which average out over the
// terms.
constexpr double kFloatRounding = 1e-6;
// One rounding of each input moves the answer so much; a pass rounds a few times on its way. The
// largest of some draws, for one alone may cancel.
constexpr double kAmplified = 4.0;
constexpr std::uint64_t kNudges = 4;
constexpr Index kSequences = 2;
constexpr std::array kThreadCounts = {1, 2, 3};

// Random, but more often along the gradient than against it, so that no tensor's terms cancel and
// hide it; and scaled so that Σ |gradient · v| is the same for each tensor.
std::vector<Values> balanced_direction(const std::vector<Values>& gradients, std::uint64_t seed) {
  std::vector<Values> v = reference::random_like(gradients, seed);
  for (std::size_t i = 0; i < v.size(); ++i) {
    for (Index j = 0; j < v[i].size(); ++j) v[i][j] += std::copysign(0.5, gradients[i][j]);
  }
  std::vector<double> sizes;
  double largest = 0.0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    double size = 0.0;
    for (Index j = 0; j < v[i].size(); ++j) size += std::abs(gradients[i][j] * v[i][j]);
    sizes.push_back(size);
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (!(sizes[i] > 0.0) || !std::isfinite(sizes[i])) continue;
    for (double& element : v[i]) element *= largest / sizes[i];
  }
  return v;
}

// Each number moved by about a rounding of a float, up or down.
std::vector<Values> nudged(const std::vector<Values>& x, std::uint64_t seed) {
  std::vector<Values> out = x;
  for (Values& tensor : out) {
    const PhiloxKey key = RandomStream{.seed = ++seed}.key();
    for (Index i = 0; i < tensor.size(); ++i) {
      const bool up = random_word(key, static_cast<std::uint64_t>(i)) % 2 == 0;
      tensor[i] *= up ? 1.0 + 0x1p-24 : 1.0 - 0x1p-24;
    }
  }
  return out;
}

// --- The corner of the model ---------------------------------------------------------------------

class ModelGradients {
 public:
  explicit ModelGradients(const CheckContext& context)
      : context_(context),
        size_(crop_size(context.model.config())),
        small_(cropped_model(context.model, size_)),
        work_(small_->make_workspace(kSequences, size_.context)),
        inputs_(random_tokens(kSequences * size_.context, size_.vocab, context.seed)),
        targets_(random_tokens(kSequences * size_.context, size_.vocab, context.seed + 1)) {}

  std::vector<Property> run() {
    context_.stage("gradients of the model");
    const std::vector<float> gradients = gradients_on(context_.run);
    return {against_duals(gradients), on_threads(gradients)};
  }

 private:
  std::vector<float> gradients_on(const Runtime& run) {
    small_->parameters().zero_grad();
    const Index time = size_.context;
    context_.seams.gradients(
        run, *small_, work_,
        {{inputs_.data(), {kSequences, time}}, {targets_.data(), {kSequences, time}}});
    const auto all = small_->parameters().grads();
    return {all.begin(), all.end()};
  }

  Property against_duals(const std::vector<float>& all) {
    std::vector<Values> x, gradients;
    std::vector<std::string> names;
    const float* base = small_->parameters().grads().data();
    for (const Parameter& p : small_->parameters()) {
      names.push_back(p.name);
      x.emplace_back(p.shape, std::vector<double>(p.value.begin(), p.value.end()));
      const auto begin = all.begin() + (p.grad.data() - base);
      gradients.emplace_back(p.shape, std::vector<double>(begin, begin + p.size()));
    }
    const GptConfig& config = small_->config();
    const auto options = textbook_options(config);
    const reference::Tokens tokens({kSequences, size_.context}, inputs_);
    const reference::Tokens targets({kSequences * size_.context}, targets_);
    const DualFunction loss = [&](const auto& in) {
      using S = reference::Dual<double>;
      reference::ParameterMap<S> map;
      for (std::size_t i = 0; i < in.size(); ++i) map[names[i]] = in[i];
      const auto p = reference::from_map(map, config.n_layer);
      return reference::Tensor<S>::filled({1},
                                          reference::gpt_loss(tokens, targets, S(1.0), p, options));
    };
    const GradientError error =
        gradient_error(loss, x, Values({1}, {1.0}), gradients, context_.seed + 2);
    Property p;
    p.name = "model-gradients";
    p.claim = "the gradients of a model's loss agree with dual numbers";
    p.measure = "relative error";
    p.measured = error.relative;
    p.bound = error.bound;
    p.scope = scope();
    return p;
  }

  Property on_threads(const std::vector<float>& gradients) {
    const auto row = [](const std::vector<float>& values) {
      return ConstMatrix(values.data(), {1, static_cast<Index>(values.size())});
    };
    BitDifference difference;
    for (const int count : kThreadCounts) {
      const Runtime other({.threads = count, .isa = isa_name(context_.run.isa())});
      difference.compare(row(gradients), row(gradients_on(other)));
    }
    Property p;
    p.name = "gradient-threads";
    p.claim = "any number of threads gives the same gradients";
    p.measure = "numbers that differ";
    p.measured = static_cast<double>(difference.differing());
    p.scope = fmt::format("of {}; with 1, 2 and 3 threads", difference.compared());
    return p;
  }

  std::string scope() const {
    const GptConfig& whole = context_.model.config();
    const std::string tokens =
        fmt::format("{} sequences of {}", kSequences, counted(size_.context, "token"));
    if (size_.same_block(whole) && size_.layers == whole.n_layer && size_.vocab == whole.vocab_size)
      return "the whole model; " + tokens;
    return fmt::format("its corner of {}, width {}, {}; {}", counted(size_.layers, "layer"),
                       size_.width, counted(size_.vocab, "token"), tokens);
  }

  const CheckContext& context_;
  CropSize size_;
  std::unique_ptr<Gpt> small_;
  Gpt::Workspace work_;
  std::vector<TokenId> inputs_, targets_;
};

}  // namespace

GradientError gradient_error(const DualFunction& f, const std::vector<Values>& x, const Values& dy,
                             const std::vector<Values>& gradients, std::uint64_t seed) {
  const std::vector<Values> v = balanced_direction(gradients, seed);
  const reference::Adjoint adjoint = reference::check_adjoint(f, x, v, dy, gradients);
  GradientError error{adjoint.relative_error(), kFloatRounding};
  if (error.relative <= error.bound || !std::isfinite(error.relative)) return error;
  for (std::uint64_t nudge = 0; nudge < kNudges; ++nudge) {
    const reference::Adjoint moved =
        reference::check_adjoint(f, nudged(x, seed + 1000 * (nudge + 1)), v, dy, gradients);
    const double answer = std::abs(moved.forward - adjoint.forward) / adjoint.terms;
    if (std::isfinite(answer)) error.bound = std::max(error.bound, kAmplified * answer);
  }
  return error;
}

std::vector<Property> check_model_gradients(const CheckContext& context) {
  if (context.model.config().vocab_size == 1) return {};  // a loss that is 0 whatever the weights
  return ModelGradients(context).run();
}

}  // namespace prenorm
