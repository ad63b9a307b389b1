#include "prenorm/reference/dual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace prenorm::reference {
namespace {

struct Function {
  const char* name;
  Dual<double> (*dual)(const Dual<double>&);
  long double (*plain)(long double);
};

const Function kFunctions[] = {
    {"x + 2", [](const auto& x) { return x + 2; }, [](long double x) { return x + 2; }},
    {"3 - x", [](const auto& x) { return 3 - x; }, [](long double x) { return 3 - x; }},
    {"-x * x", [](const auto& x) { return -x * x; }, [](long double x) { return -x * x; }},
    {"x / (1 + x * x)", [](const auto& x) { return x / (1 + x * x); },
     [](long double x) { return x / (1 + x * x); }},
    {"sqrt", [](const auto& x) { return sqrt(x); }, [](long double x) { return std::sqrt(x); }},
    {"exp", [](const auto& x) { return exp(x); }, [](long double x) { return std::exp(x); }},
    {"log", [](const auto& x) { return log(x); }, [](long double x) { return std::log(x); }},
    {"tanh", [](const auto& x) { return tanh(x); }, [](long double x) { return std::tanh(x); }},
    {"erf", [](const auto& x) { return erf(x); }, [](long double x) { return std::erf(x); }},
    {"erfc", [](const auto& x) { return erfc(x); }, [](long double x) { return std::erfc(x); }},
};

TEST(Dual, values_and_derivatives_agree_with_central_differences) {
  for (const Function& f : kFunctions) {
    for (const double x : {0.25, 0.7, 1.5, 3.0}) {
      const Dual<double> y = f.dual(Dual<double>(x, 1.0));
      const long double h = 1e-6L;
      const long double slope = (f.plain(x + h) - f.plain(x - h)) / (2 * h);
      EXPECT_NEAR(y.value, static_cast<double>(f.plain(x)), 1e-15 * std::exp(x)) << f.name;
      EXPECT_NEAR(y.derivative, static_cast<double>(slope), 1e-9 * std::exp(x)) << f.name;
    }
  }
}

TEST(Dual, a_derivative_is_linear_in_the_direction) {
  const Dual<double> once = exp(Dual<double>(0.3, 1.0)), twice = exp(Dual<double>(0.3, 2.0));
  EXPECT_EQ(twice.derivative, 2.0 * once.derivative);
}

TEST(Dual, a_constant_has_no_derivative) {
  Dual<double> x = 3;
  x += Dual<double>(1.0, 5.0);
  x *= 2;
  EXPECT_EQ(x.value, 8.0);
  EXPECT_EQ(x.derivative, 10.0);
}

TEST(Dual, comparisons_look_at_the_value_alone) {
  EXPECT_TRUE(Dual<double>(1.0, 5.0) == Dual<double>(1.0, 7.0));
  EXPECT_TRUE(Dual<double>(1.0, 5.0) < Dual<double>(2.0, 0.0));
  EXPECT_TRUE((Dual<double>(2.0, 0.0) >= 2.0));
}

TEST(Dual, duals_of_duals_give_the_second_derivative) {
  using Second = Dual<Dual<double>>;
  const Second x(Dual<double>(0.4, 1.0), Dual<double>(1.0, 0.0));
  const Second y = exp(x * x);  // y'' = (2 + 4 x²) e^(x²)
  EXPECT_NEAR(y.derivative.derivative, (2 + 4 * 0.16) * std::exp(0.16), 1e-14);
}

}  // namespace
}  // namespace prenorm::reference
