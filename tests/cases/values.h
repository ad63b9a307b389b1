// Numbers of a case file: nested arrays of JSON as arrays of doubles, and the shorthands that stand
// for long ones.
//
//   const Array x = array_from(input.at("x"));          // [[1, "nan"], [{"fill": 0, "n": 2}]] ...
//   const Floats f = floats_from(x);  f.matrix();       // all but the last axis are rows
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/base/index.h"
#include "prenorm/base/json.h"
#include "prenorm/tensor/view.h"

namespace prenorm::cases {

using Shape = std::vector<Index>;

// A case that cannot be understood: a missing key, a wrong type, an unknown word. One line.
struct BadCase : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Array {
  Shape shape;  // empty: one number
  std::vector<double> values;

  Index size() const { return static_cast<Index>(values.size()); }
  Index columns() const { return shape.empty() ? 1 : shape.back(); }
  Index rows() const { return columns() == 0 ? 0 : size() / columns(); }
  double operator[](Index i) const { return values[static_cast<std::size_t>(i)]; }
};

// The same as floats, with the views that kernels take.
struct Floats {
  Shape shape;
  std::vector<float> values;

  Floats() = default;
  explicit Floats(Shape of);  // zeros
  Index columns() const { return shape.empty() ? 1 : shape.back(); }
  Index rows() const;
  Matrix matrix() { return {values.data(), {rows(), columns()}}; }
  ConstMatrix matrix() const { return {values.data(), {rows(), columns()}}; }
  // Empty where there are no values.
  Vector vector() { return {values.data(), {static_cast<Index>(values.size())}}; }
  ConstVector vector() const { return {values.data(), {static_cast<Index>(values.size())}}; }
};

Index product(const Shape& shape);
std::string shape_name(const Shape& shape);  // "[2, 3]"
Shape shape_from(const Json& value);         // of a list of dimensions

// Numbers, "nan", "inf", "-inf"; {"fill": v, "n": k}; {"fill": v, "shape": [...]};
// {"val": [k, shape, den]}; "val(k, (2, 3), den)"; "ones[2, 3]", "zeros[4]"; "ones" and "zeros"
// where `like` says of which shape. Throws BadCase, also for rows of unequal length.
Array array_from(const Json& value, const Shape& like = {});
bool is_numeric(const Json& value);  // array_from(value) would not throw

// The generated inputs of a case file: numbers without a pattern, exact in float.
Array val(std::uint32_t k, const Shape& shape, double den);

Floats floats_from(const Array& array);
Array array_of(const Floats& floats);
Array array_of(Shape shape, std::span<const float> values);
// Rounded to "float32", "float16" or "bfloat16"; "float64" leaves it.
Array rounded_to(const Array& array, const std::string& dtype);
Array transposed(const Array& matrix);

std::vector<TokenId> tokens_from(const Json& value);  // a list of ids

// --- Texts of expectations
// ------------------------------------------------------------------------

std::string lower(std::string text);
bool mentions(std::string_view text, std::string_view word);  // letters of either case
std::vector<std::string> numbers_in(std::string_view text);   // "9" and "8" of "with 9 and 8"
std::vector<std::string> quoted_in(std::string_view text);    // what stands between "…"
std::string bytes_from_hex(std::string_view hex);
std::string hex_of(std::string_view bytes);

}  // namespace prenorm::cases
