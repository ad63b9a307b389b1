#include "prenorm/layers/cross_entropy_loss.h"

#include "tests/layers/layer_test_util.h"

namespace prenorm {
namespace {

struct Problem {
  Index rows, classes;
  double smoothing;
  TokenId ignore_index = -100;
  Index ignored = 0;  // every n-th target is ignored; 0: none
};
const Problem kProblems[] = {{1, 1, 0.0},           {3, 4, 0.1},    {5, 7, 0.0, -1, 2},
                             {9, 300, 0.3, 250, 4}, {2, 1000, 1.0}, {4, 5, 0.5, 0, 3}};

struct Fixture {
  Tensor logits;
  std::vector<TokenId> targets;
  CrossEntropyLoss loss;

  explicit Fixture(const Problem& p)
      : logits(random_tensor({p.rows, p.classes}, 3, 4.0)),
        loss({.ignore_index = p.ignore_index, .label_smoothing = p.smoothing}) {
    for (Index n = 0; n < p.rows; ++n) {
      const bool ignore = p.ignored > 0 && n % p.ignored == 0;
      targets.push_back(ignore ? p.ignore_index : static_cast<TokenId>((n * 7 + 1) % p.classes));
    }
    for (Index i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(logits[i]);
  }
  View<const TokenId, 1> labels() const {
    return {targets.data(), {static_cast<Index>(targets.size())}};
  }
};

// Σ loss of the formula, with the terms of q written out.
double textbook(const Fixture& f, const Problem& p) {
  double total = 0.0;
  for (Index n = 0; n < p.rows; ++n) {
    const TokenId target = f.targets[static_cast<std::size_t>(n)];
    if (target == p.ignore_index) continue;
    double sum = 0.0;
    for (Index v = 0; v < p.classes; ++v) sum += std::exp(f.logits(n, v));
    for (Index v = 0; v < p.classes; ++v) {
      const double q =
          (v == target ? 1.0 - p.smoothing : 0.0) + p.smoothing / static_cast<double>(p.classes);
      total -= q * (f.logits(n, v) - std::log(sum));
    }
  }
  return total;
}

TEST(CrossEntropyLoss, is_the_sum_of_its_formula) {
  const Runtime run(Runtime::Options{.threads = 1});
  for (const Problem& p : kProblems) {
    const Fixture f(p);
    const TestMatrix in = matrix_of(f.logits, 3);
    const LossSum found = f.loss.forward(run, in.view(), f.labels());
    EXPECT_EQ(found.count, f.loss.counted(f.labels()));
    EXPECT_NEAR(found.loss, textbook(f, p),
                tolerance::kLossRtol * static_cast<double>(std::max<Index>(1, found.count)));
  }
}

TEST(CrossEntropyLoss, gradient_is_scale_times_softmax_minus_the_smoothed_target) {
  constexpr double kScale = 0.25;
  const Runtime run(Runtime::Options{.threads = 2});
  for (const Problem& p : kProblems) {
    const Fixture f(p);
    const TestMatrix in = matrix_of(f.logits, 3);
    TestMatrix d(p.rows, p.classes, 2);
    const LossSum found = f.loss.forward_backward(run, in.view(), f.labels(), kScale, d.view());
    EXPECT_EQ(found.loss, f.loss.forward(run, in.view(), f.labels()).loss);
    for (Index n = 0; n < p.rows; ++n) {
      const TokenId target = f.targets[static_cast<std::size_t>(n)];
      double sum = 0.0;
      for (Index v = 0; v < p.classes; ++v) sum += std::exp(f.logits(n, v));
      for (Index v = 0; v < p.classes; ++v) {
        const double q =
            (v == target ? 1.0 - p.smoothing : 0.0) + p.smoothing / static_cast<double>(p.classes);
        const double want =
            target == p.ignore_index ? 0.0 : kScale * (std::exp(f.logits(n, v)) / sum - q);
        EXPECT_NEAR(d.view()[n][v], want, tolerance::kFloatNorm);
      }
    }
  }
}

TEST(CrossEntropyLoss, gradient_may_overwrite_the_logits) {
  const Runtime run(Runtime::Options{.threads = 1});
  const Problem& p = kProblems[1];
  const Fixture f(p);
  TestMatrix in = matrix_of(f.logits, 3);
  TestMatrix apart(p.rows, p.classes, 1);
  f.loss.forward_backward(run, in.view(), f.labels(), 1.0, apart.view());
  f.loss.forward_backward(run, in.view(), f.labels(), 1.0, in.view());
  for (Index n = 0; n < p.rows; ++n) {
    for (Index v = 0; v < p.classes; ++v) EXPECT_EQ(in.view()[n][v], apart.view()[n][v]);
  }
}

TEST(CrossEntropyLoss, mean_over_no_target_is_not_a_number_and_its_gradient_zero) {
  const Runtime run(Runtime::Options{.threads = 1});
  const Fixture f({3, 4, 0.1, -1, 1});
  const TestMatrix in = matrix_of(f.logits, 0);
  TestMatrix d(3, 4, 0);
  EXPECT_TRUE(
      std::isnan(f.loss.forward_backward(run, in.view(), f.labels(), 1.0, d.view()).mean()));
  for (Index n = 0; n < 3; ++n) {
    for (Index v = 0; v < 4; ++v) EXPECT_EQ(d.view()[n][v], 0.0f);
  }
}

TEST(CrossEntropyLoss, refuses_targets_outside_the_classes_and_smoothing_outside_0_to_1) {
  const Runtime run(Runtime::Options{.threads = 1});
  Fixture f({2, 3, 0.0});
  const TestMatrix in = matrix_of(f.logits, 0);
  for (const TokenId bad : {-1, 3, -101}) {
    f.targets[1] = bad;
    try {
      f.loss.forward(run, in.view(), f.labels());
      ADD_FAILURE() << bad;
    } catch (const ShapeError& error) {
      EXPECT_EQ(error.what(), "CrossEntropyLoss: expected targets in [0, 3) or -100, found " +
                                  std::to_string(bad) + " at 1");
    }
  }
  f.targets[1] = -100;
  EXPECT_EQ(f.loss.forward(run, in.view(), f.labels()).count, 1);
  f.targets.push_back(0);
  EXPECT_THROW(f.loss.forward(run, in.view(), f.labels()), ShapeError);
  EXPECT_THROW(CrossEntropyLoss({.label_smoothing = -0.1}), ConfigError);
  EXPECT_THROW(CrossEntropyLoss({.label_smoothing = 1.5}), ConfigError);
  EXPECT_THROW(CrossEntropyLoss({.label_smoothing = std::nan("")}), ConfigError);
}

}  // namespace
}  // namespace prenorm
