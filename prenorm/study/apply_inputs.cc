#include "prenorm/study/apply_inputs.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"

namespace prenorm {

ApplyInputs::ApplyInputs(const TensorFile& file, std::initializer_list<std::string_view> allowed)
    : file_(file) {
  for (const Tensor& t : file.tensors()) {
    if (std::ranges::find(allowed, t.name) != allowed.end()) continue;
    std::string names;
    for (const std::string_view name : allowed)
      names += (names.empty() ? "" : ", ") + std::string(name);
    file.refuse(t, "one of " + names, "an unexpected tensor");
  }
}

const Tensor& ApplyInputs::require(std::string_view name) const {
  if (const Tensor* found = file_.find(name)) return *found;
  throw FormatError(printable(file_.name()) + ": expected a tensor '" + std::string(name) +
                    "', found none of this name");
}

reference::Tensor<double> ApplyInputs::values(const Tensor& tensor,
                                              std::vector<Index> shape) const {
  return {std::move(shape), file_.doubles(tensor)};
}

reference::Tensor<double> ApplyInputs::grad_output(const std::vector<Index>& expected,
                                                   std::vector<Index> shape) const {
  const Tensor* found = find("grad_output");
  if (found == nullptr) return {};
  if (found->shape != expected) refuse_shape(*found, shape_text(expected) + ", as the output");
  return values(*found, std::move(shape));
}

std::vector<TokenId> ApplyInputs::ids(const Tensor& tensor, Index count,
                                      std::initializer_list<Index> ignored) const {
  const std::vector<Index> found = file_.integers(tensor);
  std::vector<TokenId> out;
  out.reserve(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Index id = found[i];
    if (std::ranges::find(ignored, id) != ignored.end()) {
      out.push_back(-1);
    } else if (id < 0 || id >= count) {
      std::string also;
      for (const Index x : ignored) also += " or " + std::to_string(x);
      file_.refuse(tensor, "numbers in [0, " + std::to_string(count) + ")" + also,
                   std::to_string(id) + " at element " + std::to_string(i));
    } else {
      out.push_back(static_cast<TokenId>(id));
    }
  }
  return out;
}

void ApplyInputs::expect_shape(const Tensor& tensor, const std::vector<Index>& expected) const {
  if (tensor.shape != expected) refuse_shape(tensor, shape_text(expected));
}

void ApplyInputs::refuse_shape(const Tensor& tensor, std::string_view expected) const {
  file_.refuse(tensor, expected, printable(shape_text(tensor.shape)));
}

Tensor owned_tensor(std::string name, std::vector<Index> shape,
                    const reference::Tensor<double>& values, bool as_double) {
  const auto keep = [&](auto numbers) {
    using T = typename decltype(numbers)::value_type;
    auto owned = std::make_shared<decltype(numbers)>(std::move(numbers));
    Tensor out = tensor(std::move(name), std::move(shape), std::span<const T>(*owned));
    out.owner = std::move(owned);
    return out;
  };
  if (as_double) return keep(std::vector<double>(values.begin(), values.end()));
  std::vector<float> floats(values.values().size());
  std::ranges::transform(values.values(), floats.begin(),
                         [](double x) { return static_cast<float>(x); });
  return keep(std::move(floats));
}

}  // namespace prenorm
