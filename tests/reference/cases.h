// The public bug reports of ../shared/cases as inputs with right answers, read for the textbook's
// tests.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

using Json = nlohmann::json;

inline std::filesystem::path cases_folder() {
  return std::filesystem::path(PRENORM_SOURCE_DIR) / ".." / "shared" / "cases";
}

// The cases of one operation; none where the folder is absent.
inline std::vector<Json> read_cases(const std::string& op) {
  std::vector<Json> found;
  std::ifstream file(cases_folder() / "cases.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json one = Json::parse(line);
    if (one.at("input").is_object() && one.at("input").value("op", "") == op) found.push_back(one);
  }
  return found;
}

inline double json_number(const Json& value) {
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return value.get<double>();
}

inline void json_values(const Json& value, std::vector<double>& out) {
  if (value.is_object()) {  // {"fill": v, "n": k}
    out.insert(out.end(), value.at("n").get<std::size_t>(), json_number(value.at("fill")));
  } else if (value.is_array()) {
    for (const Json& element : value) json_values(element, out);
  } else {
    out.push_back(json_number(value));
  }
}

inline std::vector<Index> json_shape(const Json& value) {
  if (value.is_object()) return {value.at("n").get<Index>()};
  if (!value.is_array()) return {};
  std::vector<Index> shape{static_cast<Index>(value.size())};
  if (value.empty()) return shape;
  for (const Index d : json_shape(value[0])) shape.push_back(d);
  return shape;
}

// Nested arrays as a tensor; null is absent.
inline Tensor<double> json_tensor(const Json& value) {
  if (value.is_null()) return {};
  std::vector<double> values;
  json_values(value, values);
  return Tensor<double>(json_shape(value), values);
}

// The tensor at a key, absent if there is no such key.
inline Tensor<double> json_tensor(const Json& object, const char* key) {
  return object.contains(key) ? json_tensor(object.at(key)) : Tensor<double>();
}

inline void expect_near(const Tensor<double>& found, const Json& expected, double tolerance,
                        const std::string& what) {
  const Tensor<double> want = json_tensor(expected);
  ASSERT_EQ(found.size(), want.size()) << what;
  for (Index i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(found[i], want[i], tolerance) << what << " [" << i << "]";
  }
}

}  // namespace prenorm::reference
