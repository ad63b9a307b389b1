#include "prenorm/reference/cross_attention.h"

#include <gtest/gtest.h>

#include "prenorm/reference/adjoint.h"
#include "tests/reference/values.h"
#include "tests/tolerances.h"

namespace prenorm::reference {
namespace {

AttentionOptions options(Index heads, bool causal) {
  AttentionOptions o;
  o.heads = heads;
  o.causal = causal;
  return o;
}

TEST(CrossAttention, to_the_same_tokens_is_attention) {
  const Tensor<double> qkv = val(3, {2, 5, 18});
  QueryKeyValue<double> in{Tensor<double>({2, 5, 6}), Tensor<double>({2, 5, 6}),
                           Tensor<double>({2, 5, 6})};
  for (Index n = 0; n < 10; ++n) {
    for (Index c = 0; c < 6; ++c) {
      in.q(n, c) = qkv(n, c);
      in.k(n, c) = qkv(n, 6 + c);
      in.v(n, c) = qkv(n, 12 + c);
    }
  }
  AttentionMask mask;
  mask.key_padding = Tensor<unsigned char>({2, 5}, {0, 0, 1, 0, 0, 1, 0, 0, 0, 0});
  mask.added = val(9, {2, 3, 5, 5});
  for (const bool causal : {true, false}) {
    EXPECT_EQ(CrossAttention<double>(in, options(3, causal), mask).forward(),
              attention(qkv, options(3, causal), mask));
  }
}

TEST(CrossAttention, the_first_query_stands_at_the_first_key) {
  const QueryKeyValue<double> in{val(1, {1, 2, 2}), val(2, {1, 3, 2}), val(3, {1, 3, 2})};
  const Tensor<double> out = CrossAttention<double>(in, options(1, true)).forward();
  EXPECT_EQ(out(0, 0), in.v(0, 0));  // query 0 sees key 0 alone
  EXPECT_EQ(out(0, 1), in.v(0, 1));
}

TEST(CrossAttention, backward_is_the_adjoint_of_forward) {
  const std::vector<Tensor<double>> x{val(4, {2, 3, 6}), val(5, {2, 4, 6}), val(6, {2, 4, 8})};
  const Tensor<double> dy = val(7, {2, 3, 8});
  AttentionMask mask;
  mask.added = val(8, {1, 2, 3, 4});
  const auto f = [&](const std::vector<Tensor<Dual<double>>>& in) {
    const QueryKeyValue<Dual<double>> qkv{in[0], in[1], in[2]};
    return CrossAttention<Dual<double>>(qkv, options(2, true), mask).forward();
  };
  const QueryKeyValue<double> in{x[0], x[1], x[2]};
  const auto d = CrossAttention<double>(in, options(2, true), mask).backward(dy);
  const auto adjoint = check_adjoint(f, x, random_like(x, 10), dy, {d.q, d.k, d.v});
  EXPECT_LE(adjoint.relative_error(), tolerance::kAdjointDouble);
}

TEST(CrossAttention, shapes_that_do_not_fit_are_refused) {
  const QueryKeyValue<double> in{val(1, {1, 2, 4}), val(2, {1, 3, 5}), val(3, {1, 3, 4})};
  EXPECT_THROW(CrossAttention<double>(in, options(1, false)), ShapeError);
  const QueryKeyValue<double> odd{val(1, {1, 2, 4}), val(2, {1, 3, 4}), val(3, {1, 3, 4})};
  EXPECT_THROW(CrossAttention<double>(odd, options(3, false)), ShapeError);
}

}  // namespace
}  // namespace prenorm::reference
