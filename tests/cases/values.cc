#include "tests/cases/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <regex>

#include "prenorm/base/utf8.h"
#include "prenorm/formats/dtype.h"

namespace prenorm::cases {
namespace {

[[noreturn]] void refuse(std::string_view expected, const Json& found) {
  throw BadCase(
      fmt::format("expected {}, found {}", expected, printable(dump_json_compact(found), 60)));
}

std::optional<double> number_from(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

Array filled(double value, Shape shape) {
  Array out{std::move(shape), {}};
  out.values.assign(static_cast<std::size_t>(product(out.shape)), value);
  return out;
}

Shape shape_from_text(const std::string& text) {
  Shape shape;
  for (const std::string& number : numbers_in(text)) shape.push_back(std::stoll(number));
  return shape;
}

// "val(k, (2, 3), den)", "ones[2, 3]", "ones".
Array array_from_words(const std::string& text, const Shape& like) {
  static const std::regex kVal(
      R"(\s*val\(\s*(\d+)\s*,\s*[(\[]([^)\]]*)[)\]]\s*,\s*([\d.]+)\s*\)\s*)");
  static const std::regex kFill(R"(\s*(ones|zeros)\s*(?:[\[(]([\d\s,]+)[\])])?\s*)");
  std::smatch found;
  if (std::regex_match(text, found, kVal)) {
    return val(static_cast<std::uint32_t>(std::stoul(found[1])), shape_from_text(found[2]),
               std::stod(found[3]));
  }
  if (std::regex_match(text, found, kFill) && (found[2].matched || !like.empty())) {
    return filled(found[1] == "ones" ? 1.0 : 0.0,
                  found[2].matched ? shape_from_text(found[2]) : like);
  }
  refuse("numbers", text);
}

Array array_from_object(const Json& object) {
  if (object.contains("val")) {
    const Json& parts = object.at("val");
    if (!parts.is_array() || parts.size() != 3) refuse("[k, shape, den]", parts);
    return val(parts[0].get<std::uint32_t>(), shape_from(parts[1]), parts[2].get<double>());
  }
  if (object.contains("fill") && (object.contains("n") || object.contains("shape"))) {
    const auto value = number_from(object.at("fill"));
    if (!value) refuse("a number", object.at("fill"));
    return filled(*value, object.contains("n") ? Shape{object.at("n").get<Index>()}
                                               : shape_from(object.at("shape")));
  }
  refuse("numbers", object);
}

}  // namespace

Floats::Floats(Shape of)
    : shape(std::move(of)), values(static_cast<std::size_t>(product(shape)), 0.0f) {}

Index Floats::rows() const {
  Index rows = 1;
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) rows *= shape[axis];
  return rows;
}

Index product(const Shape& shape) {
  Index n = 1;
  for (const Index d : shape) n *= d;
  return n;
}

std::string shape_name(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Shape shape_from(const Json& value) {
  if (!value.is_array()) refuse("a shape", value);
  Shape shape;
  for (const Json& d : value) {
    if (!d.is_number_integer() || d.get<Index>() < 0) refuse("a shape", value);
    shape.push_back(d.get<Index>());
  }
  return shape;
}

Array array_from(const Json& value, const Shape& like) {
  if (const auto number = number_from(value)) return {{}, {*number}};
  if (value.is_string()) return array_from_words(value.get<std::string>(), like);
  if (value.is_object()) return array_from_object(value);
  if (!value.is_array()) refuse("numbers", value);
  Array out{{static_cast<Index>(value.size())}, {}};
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Array part = array_from(value[i]);
    if (i == 0) out.shape.insert(out.shape.end(), part.shape.begin(), part.shape.end());
    if (!std::equal(part.shape.begin(), part.shape.end(), out.shape.begin() + 1, out.shape.end())) {
      refuse("rows of equal length", value);
    }
    out.values.insert(out.values.end(), part.values.begin(), part.values.end());
  }
  return out;
}

bool is_numeric(const Json& value) {
  try {
    array_from(value);
    return true;
  } catch (const BadCase&) {
    return false;
  }
}

Array val(std::uint32_t k, const Shape& shape, double den) {
  Array out{shape, {}};
  for (Index i = 0; i < product(shape); ++i) {
    std::uint32_t h = static_cast<std::uint32_t>(i + 1) * 2654435761u + (k + 1) * 40503u;
    h = (h ^ (h >> 15)) * 2246822519u;
    h = (h ^ (h >> 13)) * 3266489917u;
    h ^= h >> 16;
    out.values.push_back((static_cast<double>(h % 1009) - 504.0) / den);
  }
  return out;
}

Floats floats_from(const Array& array) {
  Floats out;
  out.shape = array.shape;
  for (const double value : array.values) out.values.push_back(static_cast<float>(value));
  return out;
}

Array array_of(const Floats& floats) { return array_of(floats.shape, floats.values); }

Array array_of(Shape shape, std::span<const float> values) {
  return {std::move(shape), {values.begin(), values.end()}};
}

Array rounded_to(const Array& array, const std::string& dtype) {
  Array out = array;
  for (double& value : out.values) {
    const auto narrow = static_cast<float>(value);
    if (dtype == "float32") {
      value = narrow;
    } else if (dtype == "float16") {
      value = float_from_f16(f16_from_float(narrow));
    } else if (dtype == "bfloat16") {
      value = float_from_bf16(bf16_from_float(narrow));
    } else if (dtype != "float64") {
      throw BadCase("dtype: expected float64, float32, float16 or bfloat16, found " + dtype);
    }
  }
  return out;
}

Array transposed(const Array& matrix) {
  if (matrix.shape.size() != 2) {
    throw BadCase("expected a matrix, found " + shape_name(matrix.shape));
  }
  const Index rows = matrix.shape[0], columns = matrix.shape[1];
  Array out{{columns, rows}, matrix.values};
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < columns; ++c) {
      out.values[static_cast<std::size_t>(c * rows + r)] = matrix[r * columns + c];
    }
  }
  return out;
}

std::vector<TokenId> tokens_from(const Json& value) {
  if (!value.is_array()) refuse("a list of token ids", value);
  std::vector<TokenId> ids;
  for (const Json& id : value) {
    if (!id.is_number_integer()) refuse("a list of token ids", value);
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool mentions(std::string_view text, std::string_view word) {
  return lower(std::string(text)).find(lower(std::string(word))) != std::string::npos;
}

std::vector<std::string> numbers_in(std::string_view text) {
  static const std::regex kNumber(R"([0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?)");
  const std::string copy(text);
  std::vector<std::string> found;
  for (std::sregex_iterator it(copy.begin(), copy.end(), kNumber), end; it != end; ++it) {
    found.push_back(it->str());
  }
  return found;
}

std::vector<std::string> quoted_in(std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t open = text.find('"'); open != std::string_view::npos;) {
    const std::size_t close = text.find('"', open + 1);
    if (close == std::string_view::npos) break;
    found.emplace_back(text.substr(open + 1, close - open - 1));
    open = text.find('"', close + 1);
  }
  return found;
}

std::string bytes_from_hex(std::string_view hex) {
  std::string bytes;
  if (hex.size() % 2 != 0) throw BadCase("expected pairs of hexadecimal digits, found an odd one");
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    const char* end = hex.data() + i + 2;
    if (std::from_chars(hex.data() + i, end, value, 16).ptr != end) {
      throw BadCase("expected hexadecimal digits, found '" + std::string(hex.substr(i, 2)) + "'");
    }
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string hex_of(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

}  // namespace prenorm::cases
