#include "prenorm/layers/layer.h"

#include <fmt/format.h>

namespace prenorm {

void check_shape(std::string_view layer, std::string_view name, std::string_view tensor,
                 ConstMatrix x, Index rows, Index columns) {
  if (x.dim(1) == columns && (rows < 0 || x.dim(0) == rows)) return;
  const std::string wanted = rows < 0 ? std::string("N") : std::to_string(rows);
  throw ShapeError(fmt::format("{} '{}': {}: expected [{}, {}], found [{}, {}]", layer, name,
                               tensor, wanted, columns, x.dim(0), x.dim(1)));
}

}  // namespace prenorm
