// The tensors of `prenorm apply`'s input file, each checked when it is taken.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/formats/tensor_file.h"
#include "prenorm/reference/tensor.h"

namespace prenorm {

class ApplyInputs {
 public:
  // Throws FormatError for a tensor whose name is not `allowed`. The file must outlive this.
  ApplyInputs(const TensorFile& file, std::initializer_list<std::string_view> allowed);

  const TensorFile& file() const { return file_; }
  // Throws FormatError where there is none.
  const Tensor& require(std::string_view name) const;
  const Tensor* find(std::string_view name) const { return file_.find(name); }

  // The numbers under a shape of as many elements. Throws FormatError for another dtype.
  reference::Tensor<double> values(const Tensor& tensor, std::vector<Index> shape) const;
  // `grad_output` likewise, or an absent tensor where there is none. Throws FormatError unless its
  // own shape is `expected`.
  reference::Tensor<double> grad_output(const std::vector<Index>& expected,
                                        std::vector<Index> shape) const;
  // Token ids in [0, count), also negative ones that are `ignored`, which become −1. Throws
  // FormatError naming the first that is outside.
  std::vector<TokenId> ids(const Tensor& tensor, Index count,
                           std::initializer_list<Index> ignored = {}) const;
  void expect_shape(const Tensor& tensor, const std::vector<Index>& expected) const;
  // Throws FormatError `expected …, found [2, 3]`.
  [[noreturn]] void refuse_shape(const Tensor& tensor, std::string_view expected) const;

 private:
  const TensorFile& file_;
};

// A tensor to write, F64 or F32 (which the numbers fit), that owns its memory.
Tensor owned_tensor(std::string name, std::vector<Index> shape,
                    const reference::Tensor<double>& values, bool as_double);

}  // namespace prenorm
