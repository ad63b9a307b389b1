// --dtype and --bf16-sums: what the products of a training are computed in.
#pragma once
#include <optional>
#include <string>

#include "prenorm/cli/option_table.h"
#include "prenorm/kernels/products.h"

namespace prenorm::cli {

class ProductsFlags {
 public:
  // This must outlive the table.
  void declare(OptionTable& table, const std::string& dtype_help, const std::string& sums_help);

  bool float32() const;
  // Products in bfloat16 with the order of sums that was asked for; nothing: in any order.
  std::optional<Products> order() const;

 private:
  std::string dtype_ = "f32", sums_ = "auto";
};

}  // namespace prenorm::cli
