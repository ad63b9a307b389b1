#include "prenorm/study/diagnose_elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "prenorm/study/diagnose_hypotheses.h"
#include "prenorm/study/diagnose_replay.h"
#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

// The square root of the mean square difference, relative to the size.
double relative(const Values& found, const Values& want) {
  EXPECT_EQ(found.shape(), want.shape());
  return std::sqrt(mean_square_difference(found, want) / std::max(mean_square(want), 1e-300));
}

Values first_rows(const Values& x, Index rows) {
  Values out({rows, x.columns()});
  std::copy_n(x.row(0), out.size(), out.row(0));
  return out;
}

Values first_sequence(const Values& x) { return first_rows(x, x.dim(1)); }

constexpr double kLastBits = 1e-14;

TEST(DiagnoseElementwise, attention_with_any_mistake_is_the_textbooks) {
  Values qkv({2, 19, 3 * 24});
  std::mt19937 generator(3);
  std::normal_distribution<double> normal;
  for (double& x : qkv) x = 2.0 * normal(generator);
  const DiagnoseModel model = small_diagnose_model();
  Mistakes choices = choices_of_block(model, 0);
  choices.push_back({.name = "activation.relu"});  // none in the attention
  const Runtime run({.threads = 3});
  std::size_t different = 0;
  Values before;
  for (const MistakeChoice& choice : choices) {
    auto options = with_mistakes(model.options(), {choice}).h[0].attn.core;
    options.heads = 4;
    for (const bool causal : {true, false}) {
      options.causal = causal;
      const Values want = reference::attention(qkv, options);
      for (const bool spread : {true, false}) {
        EXPECT_LT(relative(quick_attention(run, qkv, 19, options, spread), want), kLastBits)
            << choice.name << " " << choice.text;
      }
      const Values one = reference::attention(first_sequence(qkv), options);
      EXPECT_LT(
          relative(quick_attention_start(run, first_sequence(qkv), options, 5), first_rows(one, 5)),
          kLastBits)
          << choice.name << " " << choice.text;
      different += want == before ? 0 : 1;
      before = want;
    }
  }
  EXPECT_GT(different, 40u);
}

TEST(DiagnoseElementwise, attention_in_small_numbers_is_the_textbooks) {
  Values qkv({1, 9, 3 * 8});
  std::mt19937 generator(4);
  std::normal_distribution<double> normal;
  for (double& x : qkv) x = normal(generator);
  const Runtime run;
  for (const auto numbers : {reference::Numbers::kFloat16, reference::Numbers::kBfloat16}) {
    const reference::AttentionOptions options{
        .heads = 2, .numbers = numbers, .cache_numbers = reference::Numbers::kFloat16};
    EXPECT_EQ(quick_attention(run, qkv, 9, options, false), reference::attention(qkv, options));
  }
}

TEST(DiagnoseElementwise, activations_are_the_textbooks) {
  Values x({7, 3001});
  for (Index i = 0; i < x.size(); ++i) {
    x[i] = -45.0 + 90.0 * static_cast<double>(i) / static_cast<double>(x.size());
  }
  x[0] = -1e300;
  x[1] = 1e300;
  const Runtime run({.threads = 2});
  using reference::Activation;
  for (const auto kind :
       {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kGeluQuick}) {
    for (const auto numbers : {reference::Numbers::kExact, reference::Numbers::kFloat16}) {
      const reference::ActivationOptions options{.kind = kind, .input_numbers = numbers};
      const Values want = reference::activation(x, options);
      const Values found = quick_activation(run, x, options, true);
      for (Index i = 0; i < x.size(); ++i) {
        if (found[i] == want[i]) continue;  // infinite
        if (std::isnan(found[i]) && std::isnan(want[i])) continue;
        EXPECT_LE(std::abs(found[i] - want[i]), 1e-15 * std::max(1.0, std::abs(want[i]))) << x[i];
      }
    }
  }
}

// Float32 code rounds every step, not the results alone: its own rounding is what a dump is
// measured with.
TEST(DiagnoseElementwise, in_float32_every_step_is_rounded) {
  constexpr double kOnce = 0x1p-24 / 1.7320508;  // of results alone, to their size
  const Runtime run;
  std::mt19937 generator(4);
  std::normal_distribution<double> normal;
  const auto rounding = [](const Values& found, const Values& exact) {
    return std::sqrt(mean_square_difference(found, exact) / mean_square(exact));
  };
  Values x({64, 64}), qkv({1, 64, 3 * 32});
  for (double& v : x) v = static_cast<float>(normal(generator));
  for (double& v : qkv) v = static_cast<float>(4.0 * normal(generator));  // sharp
  const auto in = [&](reference::Activation kind, reference::Numbers numbers) {
    return quick_activation(run, x, {.kind = kind, .numbers = numbers}, false);
  };
  using reference::Numbers;
  for (const auto kind : {reference::Activation::kGelu, reference::Activation::kGeluTanh,
                          reference::Activation::kGeluQuick}) {
    const double r = rounding(in(kind, Numbers::kFloat32), in(kind, Numbers::kExact));
    EXPECT_GT(r, 1.05 * kOnce);
    EXPECT_LT(r, 4.0 * kOnce);
  }
  const auto attended = [&](Numbers numbers) {
    return quick_attention(run, qkv, 64, {.heads = 2, .numbers = numbers}, false);
  };
  const double r = rounding(attended(Numbers::kFloat32), attended(Numbers::kExact));
  EXPECT_GT(r, 2.0 * kOnce);
  EXPECT_LT(r, 100.0 * kOnce);
}

}  // namespace
}  // namespace prenorm
