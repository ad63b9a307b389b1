#include "prenorm/model/tensor_misfits.h"

#include <algorithm>
#include <string_view>

#include "prenorm/base/error.h"
#include "prenorm/base/listing.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
void TensorMisfits::check(const Tensor& tensor, std::span<const Index> shape) {
  if (!std::ranges::equal(tensor.shape, shape)) {
    misshapen.push_back(printable(tensor.name) + ": expected " + shape_text(shape) + ", found " +
                        printable(shape_text(tensor.shape)));
  } else if (!dtype_is_floating_point(tensor.dtype)) {
    misshapen.push_back(printable(tensor.name) + ": expected F32, F16, BF16 or F64, found " +
                        std::string(dtype_name(tensor.dtype)));
  }
}

void TensorMisfits::throw_if_any(const std::string& file) const {
  if (missing.empty() && unexpected.empty() && misshapen.empty()) return;
  throw FormatError(
      file + ": expected the model's tensors, found " + std::to_string(missing.size()) +
      " missing, " + std::to_string(unexpected.size()) + " unexpected, " +
      std::to_string(misshapen.size()) + " of another shape or type" + listing("missing", missing) +
      listing("unexpected", unexpected) + listing("misfit", misshapen));
}

}  // namespace prenorm
