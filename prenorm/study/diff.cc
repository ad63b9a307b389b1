#include "prenorm/study/diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/config_json.h"
#include "prenorm/model/model_source.h"

namespace prenorm {
namespace {

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kTokenEmbedding = "wte.weight";

bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// One side: its tensors by names without "transformer.".
struct Side {
  TensorFile file;
  std::map<std::string, const Tensor*> by_name;
  std::optional<bool> tied;  // of a model

  explicit Side(const std::filesystem::path& path)
      : file(is_folder(path) ? read_weights(path) : read_tensors(path)) {
    constexpr std::string_view kPrefix = "transformer.";
    for (const Tensor& t : file.tensors()) {
      std::string name = t.name;
      if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
      by_name.emplace(std::move(name), &t);
    }
    const auto wte = by_name.find(kTokenEmbedding), head = by_name.find(kHead);
    if (wte == by_name.end()) return;
    tied = head == by_name.end() || (head->second->shape == wte->second->shape &&
                                     std::ranges::equal(head->second->bytes, wte->second->bytes));
    if (*tied && head != by_name.end()) by_name.erase(head);
  }
};

void compare_numbers(const Tensor& a, const Tensor& b, double tolerance, TensorDifference& out) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t wide_a = dtype_size(a.dtype), wide_b = dtype_size(b.dtype);
  const auto count = static_cast<std::size_t>(a.size());
  std::vector<double> from_a(kBlock), from_b(kBlock);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    doubles_from(a.dtype, a.bytes.subspan(begin * wide_a, n * wide_a), std::span(from_a).first(n));
    doubles_from(b.dtype, b.bytes.subspan(begin * wide_b, n * wide_b), std::span(from_b).first(n));
    for (std::size_t i = 0; i < n; ++i) {
      const double x = from_a[i], y = from_b[i];
      const bool nan_x = std::isnan(x), nan_y = std::isnan(y);
      out.nans_first += nan_x ? 1 : 0;
      out.nans_second += nan_y ? 1 : 0;
      if (nan_x || nan_y) {
        out.differing += nan_x != nan_y ? 1 : 0;
        continue;
      }
      if (x == y) continue;
      const double apart = std::abs(x - y);
      const double size = std::max(std::abs(x), std::abs(y));
      out.max_absolute = std::max(out.max_absolute, apart);
      out.max_relative = std::max(out.max_relative, std::isinf(size) ? 1.0 : apart / size);
      out.differing += apart > tolerance ? 1 : 0;
    }
  }
}

std::optional<TensorDifference> compare(const std::string& name, const Tensor& a, const Tensor& b,
                                        double tolerance, std::vector<std::string>& warnings) {
  TensorDifference out;
  out.name = name;
  if (a.shape != b.shape) {
    out.kind = TensorDifference::Kind::kShape;
    out.first = shape_text(a.shape);
    out.second = shape_text(b.shape);
    return out;
  }
  if (dtype_is_floating_point(a.dtype) && dtype_is_floating_point(b.dtype)) {
    compare_numbers(a, b, tolerance, out);
    if (out.nans_first + out.nans_second > 0) {
      warnings.push_back("'" + printable(name) + "' holds " + std::to_string(out.nans_first) +
                         " NaN in the first and " + std::to_string(out.nans_second) +
                         " in the second");
    }
  } else if (a.dtype == b.dtype && !std::ranges::equal(a.bytes, b.bytes)) {
    const std::size_t width = dtype_size(a.dtype);
    for (std::size_t i = 0; i < a.bytes.size(); i += width) {
      const bool equal = std::ranges::equal(a.bytes.subspan(i, width), b.bytes.subspan(i, width));
      out.differing += equal ? 0 : 1;
    }
  }
  if (a.dtype != b.dtype) {
    out.kind = TensorDifference::Kind::kDtype;
    out.first = dtype_name(a.dtype);
    out.second = dtype_name(b.dtype);
    return out;
  }
  return out.differing > 0 ? std::optional(out) : std::nullopt;
}

void compare_configs(const std::filesystem::path& first, const std::filesystem::path& second,
                     Difference& found) {
  const auto config = [](const std::filesystem::path& folder) {
    return Json::parse(config_text(load_config(folder)));
  };
  const Json a = config(first), b = config(second);
  const auto text = [](const Json& json, const std::string& key) {
    const auto it = json.find(key);
    return it == json.end() ? std::string("none") : dump_json_compact(*it);
  };
  for (const auto& [key, value] : a.items()) {
    if (text(b, key) != text(a, key)) found.config.push_back({key, text(a, key), text(b, key)});
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) found.config.push_back({key, "none", text(b, key)});
  }
}

}  // namespace

Difference diff(const std::filesystem::path& first, const std::filesystem::path& second,
                double tolerance) {
  Difference found;
  const Side a(first), b(second);
  const auto only = [&](const std::string& name, TensorDifference::Kind kind) {
    TensorDifference difference;
    difference.name = name;
    difference.kind = kind;
    found.tensors.push_back(std::move(difference));
  };
  for (const auto& [name, tensor] : a.by_name) {
    const auto it = b.by_name.find(name);
    if (it == b.by_name.end()) {
      only(name, TensorDifference::Kind::kOnlyInFirst);
      continue;
    }
    ++found.compared;
    if (auto difference = compare(name, *tensor, *it->second, tolerance, found.warnings)) {
      found.tensors.push_back(*std::move(difference));
    }
  }
  for (const auto& [name, tensor] : b.by_name) {
    if (!a.by_name.contains(name)) only(name, TensorDifference::Kind::kOnlyInSecond);
  }
  std::ranges::stable_sort(found.tensors, {}, &TensorDifference::name);
  if (a.tied && b.tied && *a.tied != *b.tied) {
    found.head = *a.tied ? "tied in the first, untied in the second"
                         : "untied in the first, tied in the second";
  }
  if (is_folder(first) && is_folder(second)) {
    compare_configs(first, second, found);
  }
  return found;
}

}  // namespace prenorm
