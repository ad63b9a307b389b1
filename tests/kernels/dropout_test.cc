#include "prenorm/kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kernel_test_util.h"
#include "tests/kernels/rows_testing.h"
#include "tests/tolerances.h"

namespace prenorm::kernels {
namespace {

using namespace rows_testing;  // NOLINT

Dropout example(double p, Index first_element) {
  return {.stream = {.seed = 42, .purpose = Purpose::kEmbeddingDropout, .step = 7, .layer = 2},
          .p = p,
          .first_element = first_element};
}

TEST(Dropout, keeps_an_element_when_its_word_is_at_or_above_p) {
  const Runtime run;
  for (const Index width : {1, 2, 3, 15, 16, 17, 100, 768, 1000}) {
    for (const Index first : {Index{0}, Index{1}, Index{2}, Index{3}, Index{4} << 32}) {
      const Dropout drop = example(0.3, first);
      PaddedMatrix x(5, width), residual(5, width), y(5, width), sum(5, width);
      fill_normal(x, 1);
      fill_normal(residual, 2);
      dropout(run, drop, x.cview(), {}, y.view());
      dropout(run, drop, x.cview(), residual.cview(), sum.view());
      const PhiloxKey key = drop.stream.key();
      for (Index n = 0; n < 5; ++n) {
        for (Index c = 0; c < width; ++c) {
          const auto element = static_cast<std::uint64_t>(first + n * width + c);
          const bool keep = random_word(key, element) * 0x1p-32 >= 0.3;
          const float scaled = x(n, c) * static_cast<float>(1 / 0.7);
          ASSERT_EQ(y(n, c), keep ? scaled : 0.0f) << width << " " << first << " " << n << " " << c;
          ASSERT_EQ(sum(n, c), keep ? residual(n, c) + scaled : residual(n, c));
        }
      }
      EXPECT_TRUE(y.guards_intact());
      EXPECT_TRUE(sum.guards_intact());
    }
  }
}

TEST(Dropout, drops_the_asked_share_and_keeps_the_mean) {
  const Runtime run;
  PaddedMatrix x(1000, 1000, 0), y(1000, 1000, 0);
  for (Index n = 0; n < 1000; ++n) {
    for (Index c = 0; c < 1000; ++c) x(n, c) = 1.0f;
  }
  for (const double p : {0.1, 0.5, 0.9}) {
    dropout(run, example(p, 0), x.cview(), {}, y.view());
    double dropped = 0, sum = 0;
    for (Index n = 0; n < 1000; ++n) {
      for (Index c = 0; c < 1000; ++c) {
        dropped += y(n, c) == 0.0f;
        sum += y(n, c);
      }
    }
    const double deviation = std::sqrt(1e6 * p * (1 - p));
    EXPECT_NEAR(dropped, 1e6 * p, tolerance::kSigmas * deviation);
    EXPECT_NEAR(sum, 1e6, tolerance::kSigmas * deviation / (1 - p));
  }
}

TEST(Dropout, lets_nothing_of_a_dropped_element_through) {
  const Runtime run;
  const Dropout drop = example(0.5, 0);
  PaddedMatrix x(1, 64), residual(1, 64), y(1, 64);
  for (Index c = 0; c < 64; ++c) {
    x(0, c) = std::numeric_limits<float>::quiet_NaN();
    residual(0, c) = -0.0f;
  }
  dropout(run, drop, x.cview(), residual.cview(), y.view());
  int dropped = 0;
  for (Index c = 0; c < 64; ++c) {
    if (std::isnan(y(0, c))) continue;
    ++dropped;
    EXPECT_TRUE(std::signbit(y(0, c))) << "the residual's bits stay";
  }
  EXPECT_GT(dropped, 10);
  EXPECT_LT(dropped, 54);
}

TEST(Dropout, of_a_part_of_the_rows_is_that_part_of_the_whole) {
  const Runtime run;
  PaddedMatrix x(10, 37), whole(10, 37), parts(10, 37);
  fill_normal(x, 3);
  dropout(run, example(0.2, 0), x.cview(), {}, whole.view());
  for (const Index n : {0, 3, 7}) {
    const Index count = n == 0 ? 3 : n == 3 ? 4 : 3;
    dropout(run, example(0.2, n * 37), x.cview().rows(n, count), {}, parts.view().rows(n, count));
  }
  EXPECT_TRUE(parts.same_bits(whole));
}

TEST(Dropout, gives_the_same_bits_on_every_isa_and_thread_count_and_in_place) {
  for (const Index width : {1, 2, 3, 15, 16, 17, 100, 768}) {
    PaddedMatrix x(200, width), residual(200, width), expected(200, width);
    fill_normal(x, 4);
    fill_normal(residual, 5);
    dropout(Runtime({.threads = 1, .isa = "auto"}), example(0.1, 5), x.cview(), residual.cview(),
            expected.view());
    on_every_runtime([&](const Runtime& run) {
      PaddedMatrix y(200, width), over_x = x, over_residual = residual;
      dropout(run, example(0.1, 5), x.cview(), residual.cview(), y.view());
      EXPECT_TRUE(y.same_bits(expected));
      dropout(run, example(0.1, 5), over_x.cview(), residual.cview(), over_x.view());
      EXPECT_TRUE(over_x.same_bits(expected));
      dropout(run, example(0.1, 5), x.cview(), over_residual.cview(), over_residual.view());
      EXPECT_TRUE(over_residual.same_bits(expected));
    });
  }
}

TEST(Dropout, depends_on_seed_purpose_step_and_layer) {
  const Runtime run;
  PaddedMatrix x(1, 256), base(1, 256), y(1, 256);
  fill_normal(x, 6);
  dropout(run, example(0.5, 0), x.cview(), {}, base.view());
  for (int field = 0; field < 4; ++field) {
    Dropout drop = example(0.5, 0);
    if (field == 0) drop.stream.seed += std::uint64_t{1} << 40;
    if (field == 1) drop.stream.purpose = Purpose::kFeedForwardResidualDropout;
    if (field == 2) drop.stream.step += 1;
    if (field == 3) drop.stream.layer += 1;
    dropout(run, drop, x.cview(), {}, y.view());
    int equal = 0;
    for (Index c = 0; c < 256; ++c) equal += (y(0, c) == 0.0f) == (base(0, c) == 0.0f);
    EXPECT_NEAR(equal, 128, 40) << "field " << field;
  }
}

}  // namespace
}  // namespace prenorm::kernels
