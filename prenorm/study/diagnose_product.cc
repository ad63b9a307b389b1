#include "prenorm/study/diagnose_product.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "prenorm/kernels/matmul.h"
#include "prenorm/kernels/matmul_wide.h"

namespace prenorm {

namespace {

// Room for numbers that are all to be written: a pass of few tokens would clear as much as it
// reads.
std::unique_ptr<float[]> room(Index size) {
  return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(size));
}

Values in_float(const Runtime& run, const Values& x, const Floats& w, bool quick) {
  const Index rows = x.rows(), in = w.rows(), columns = w.columns(), size = rows * columns;
  const std::unique_ptr<float[]> narrow_x = room(x.size()), narrow_y = room(size);
  std::ranges::transform(x, narrow_x.get(), [](double v) { return static_cast<float>(v); });
  if (quick) {
    kernels::matmul_single(run.isa(), rows, in, columns, narrow_x.get(), w.row(0), narrow_y.get());
  } else {
    kernels::matmul(run, ConstMatrix(narrow_x.get(), {rows, in}),
                    kernels::Right::plain(ConstMatrix(w.row(0), {in, columns})),
                    Matrix(narrow_y.get(), {rows, columns}), {});
  }
  return Values(reference::with_columns(x, columns),
                std::vector<double>(narrow_y.get(), narrow_y.get() + size));
}

}  // namespace

Values product(const Runtime& run, const Values& x, const Floats& w, Arithmetic arithmetic,
               bool spread) {
  const Index rows = x.rows(), in = w.rows(), columns = w.columns();
  if (arithmetic != Arithmetic::kDouble)
    return in_float(run, x, w, arithmetic == Arithmetic::kQuick);
  Values y(reference::with_columns(x, columns));
  if (!spread) {
    kernels::matmul_wide(run.isa(), rows, in, columns, x.row(0), w.row(0), y.row(0));
    return y;
  }
  constexpr Index kPiece = 64;  // columns: of whole tiles
  run.pool().run((columns + kPiece - 1) / kPiece, [&](Index i, int) {
    const Index first = i * kPiece, count = std::min(kPiece, columns - first);
    kernels::matmul_wide_columns(run.isa(), rows, in, count, columns, x.row(0), w.row(0) + first,
                                 y.row(0) + first);
  });
  return y;
}

}  // namespace prenorm
