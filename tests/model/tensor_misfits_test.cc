#include "prenorm/model/tensor_misfits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor tensor(std::string name, Dtype dtype, std::vector<Index> shape) {
  Tensor t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.shape = std::move(shape);
  return t;
}

TEST(TensorMisfits, lists_all_that_does_not_fit) {
  TensorMisfits misfits;
  const std::vector<Index> shape{2, 3};
  misfits.check(tensor("good", Dtype::kF16, shape), shape);
  EXPECT_NO_THROW(misfits.throw_if_any("F"));
  misfits.check(tensor("turned", Dtype::kF32, {3, 2}), shape);
  misfits.check(tensor("whole", Dtype::kI64, shape), shape);
  misfits.missing = {"a"};
  misfits.unexpected = {"b"};
  EXPECT_THAT(
      [&] { misfits.throw_if_any("F"); },
      ThrowsMessage<FormatError>(
          "F: expected the model's tensors, found 1 missing, 1 unexpected, 2 of another "
          "shape or type\n  missing: a\n  unexpected: b\n  misfit: turned: expected [2, 3], "
          "found [3, 2]\n  misfit: whole: expected F32, F16, BF16 or F64, found I64"));
}

TEST(TensorMisfits, names_twenty_of_a_kind_and_counts_the_rest) {
  TensorMisfits misfits;
  for (int i = 0; i < 23; ++i) misfits.missing.push_back("t" + std::to_string(i));
  EXPECT_THAT([&] { misfits.throw_if_any("F"); },
              ThrowsMessage<FormatError>(HasSubstr("missing: t19\n  and 3 more missing")));
}

}  // namespace
}  // namespace prenorm
