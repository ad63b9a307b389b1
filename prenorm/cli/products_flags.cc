#include "prenorm/cli/products_flags.h"

namespace prenorm::cli {

void ProductsFlags::declare(OptionTable& table, const std::string& dtype_help,
                            const std::string& sums_help) {
  table.choice("dtype", dtype_, {"f32", "bf16", "float32", "bfloat16"}, dtype_help);
  table.choice("bf16-sums", sums_, {"auto", "dot", "tile"}, sums_help);
}

bool ProductsFlags::float32() const { return dtype_ == "f32" || dtype_ == "float32"; }

std::optional<Products> ProductsFlags::order() const {
  if (sums_ == "auto") return std::nullopt;
  return sums_ == "dot" ? Products::kBfloat16Dot : Products::kBfloat16Tile;
}

}  // namespace prenorm::cli
