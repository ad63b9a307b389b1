#include "prenorm/layers/layer.h"

#include "tests/layers/layer_test_util.h"

namespace prenorm {
namespace {

// A pair that lacks what the concept asks for: forward() that is not const.
struct MutableForward {
  struct Saved {};
  Saved plan(Arena&, Index) const { return {}; }
  void forward(const Runtime&, ConstMatrix, Matrix, Saved&) {}
  void backward(const Runtime&, ConstMatrix, ConstMatrix, const Saved&, Matrix) {}
};
struct NoBackward {
  struct Saved {};
  Saved plan(Arena&, Index) const { return {}; }
  void forward(const Runtime&, ConstMatrix, Matrix, Saved&) const {}
};
static_assert(Layer<LayerNorm> && Layer<Linear> && Layer<FeedForward>);
static_assert(!Layer<MutableForward> && !Layer<NoBackward>);

TEST(CheckShape, accepts_the_shape_and_any_number_of_rows_where_it_is_open) {
  const TestMatrix x(12, 16, 4);
  EXPECT_NO_THROW(check_shape("LayerNorm", "h.0.ln_1", "x", x.view(), 12, 16));
  EXPECT_NO_THROW(check_shape("LayerNorm", "h.0.ln_1", "x", x.view(), -1, 16));
}

TEST(CheckShape, names_the_layer_the_tensor_what_was_expected_and_what_was_found) {
  const TestMatrix x(12, 8);
  expect_error<ShapeError>([&] { check_shape("LayerNorm", "h.0.ln_1", "x", x.view(), 12, 16); },
                           "LayerNorm 'h.0.ln_1': x: expected [12, 16], found [12, 8]");
  expect_error<ShapeError>([&] { check_shape("LayerNorm", "h.0.ln_1", "x", x.view(), -1, 16); },
                           "LayerNorm 'h.0.ln_1': x: expected [N, 16], found [12, 8]");
  expect_error<ShapeError>([&] { check_shape("Linear", "head", "dy", x.view(), 11, 8); },
                           "Linear 'head': dy: expected [11, 8], found [12, 8]");
}

}  // namespace
}  // namespace prenorm
