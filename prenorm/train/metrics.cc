#include "prenorm/train/metrics.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"

namespace prenorm {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view expected) {
  throw IoError(
      fmt::format("{}: expected {}, found: {}", path.string(), expected, std::strerror(errno)));
}

Json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

double rounded(double value, double unit) { return std::round(value / unit) * unit; }

std::optional<double> number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

MetricsRow parse_row(std::string_view line, const std::string& name) {
  const Json object = parse_json(line, name);
  const auto iter = object.is_object() ? object.find("iter") : object.end();
  if (!object.is_object() || iter == object.end() || !iter->is_number_integer()) {
    throw FormatError(name + ": expected an object with an \"iter\", found another value");
  }
  return {.iter = iter->get<Index>(),
          .loss = number_of(object, "loss"),
          .val_loss = number_of(object, "val_loss"),
          .learning_rate = number_of(object, "lr"),
          .grad_norm = number_of(object, "grad_norm"),
          .tokens_per_second = number_of(object, "tokens_per_second"),
          .elapsed = number_of(object, "elapsed")};
}

// visit(row, byte after the line) for each complete line until it returns false.
template <typename Visit>
void for_each_line(std::string_view text, const std::filesystem::path& path, Visit&& visit) {
  Index number = 0;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string_view::npos;
       begin = end + 1) {
    const std::string name = fmt::format("{} line {}", path.string(), ++number);
    if (!visit(parse_row(text.substr(begin, end - begin), name), end + 1)) return;
  }
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, Index keep_through) : path_(std::move(path)) {
  std::size_t keep = 0;
  if (keep_through >= 0 && std::filesystem::exists(path_)) {
    for_each_line(read_file(path_), path_, [&](const MetricsRow& row, std::size_t end) {
      if (row.iter > keep_through) return false;
      keep = end;
      return true;
    });
  }
  file_.reset(std::fopen(path_.c_str(), "ab"));
  if (!file_) fail(path_, "a file to append to");
  std::error_code error;
  std::filesystem::resize_file(path_, keep, error);
  if (error) throw IoError(path_.string() + ": expected to shorten it, found: " + error.message());
}

void MetricsFile::append(const Progress& progress) {
  Json line{{"iter", progress.iter},
            {"loss", number(progress.loss)},
            {"lr", number(progress.learning_rate)},
            {"grad_norm", number(progress.grad_norm)}};
  if (progress.tokens_per_second > 0) {
    line["tokens_per_second"] = number(rounded(progress.tokens_per_second, 0.5));
  }
  line["elapsed"] = number(rounded(progress.elapsed_seconds, 1.0 / 1024));
  if (progress.val_loss) line["val_loss"] = number(progress.val_loss);
  if (progress.skipped_steps > 0) line["skipped_steps"] = progress.skipped_steps;
  const std::string text = dump_json_compact(line) + '\n';
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
      std::fflush(file_.get()) != 0) {
    fail(path_, "room for another line");
  }
}

std::vector<MetricsRow> read_metrics(const std::filesystem::path& path) {
  std::vector<MetricsRow> rows;
  for_each_line(read_file(path), path, [&](const MetricsRow& row, std::size_t) {
    rows.push_back(row);
    return true;
  });
  return rows;
}

}  // namespace prenorm
