#include "prenorm/train/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"

namespace prenorm {
namespace {

Json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

double rounded(double value, double unit) { return std::round(value / unit) * unit; }

std::optional<double> number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// A whole number that fits; one from 2^63 would wrap.
std::optional<Index> whole_number(const Json& value) {
  if (value.is_number_unsigned()) return checked_cast<Index>(value.get<std::uint64_t>());
  if (value.is_number_integer()) return value.get<Index>();
  return std::nullopt;
}

Json parse_line(std::string_view line, const std::string& name) {
  Json object = parse_json(line, name);
  const auto iter = object.is_object() ? object.find("iter") : object.end();
  if (!object.is_object() || iter == object.end() || !whole_number(*iter)) {
    throw FormatError(name + ": expected an object with an \"iter\", found another value");
  }
  return object;
}

MetricsRow row_of(const Json& object) {
  return {.iter = object.at("iter").get<Index>(),
          .loss = number_of(object, "loss"),
          .val_loss = number_of(object, "val_loss"),
          .learning_rate = number_of(object, "lr"),
          .grad_norm = number_of(object, "grad_norm"),
          .tokens_per_second = number_of(object, "tokens_per_second"),
          .elapsed = number_of(object, "elapsed")};
}

// --- The watch -----------------------------------------------------------------------------------

// visit(key, field) for each number of a layer's health.
template <typename Health, typename Visit>
void visit_health(Health& health, const Visit& visit) {
  visit("rms", health.rms);
  visit("spread", health.spread);
  visit("largest", health.largest);
  visit("zeros", health.zeros);
  visit("max_score", health.max_score);
  visit("grad_norm", health.grad_norm);
}

Json frame_json(const WatchFrame& frame) {
  Json layers = Json::array();
  for (const LayerHealth& health : frame.layers) {
    Json layer = Json::object();
    visit_health(health, [&](const char* key, double value) { layer[key] = number(value); });
    layers.push_back(std::move(layer));
  }
  return {{"loss", number(frame.loss)},
          {"grad_norm", number(frame.grad_norm)},
          {"layers", std::move(layers)}};
}

double number_or_nan(const Json& object, const char* key) {
  return number_of(object, key).value_or(std::numeric_limits<double>::quiet_NaN());
}

const Json& member(const Json& object, const char* key, const std::string& name) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (object.is_object() && found != object.end()) return *found;
  throw FormatError(fmt::format("{}: expected a \"{}\", found none", name, key));
}

WatchFrame frame_of(const Json& object, Index iter, const std::string& name) {
  WatchFrame frame;
  frame.iter = iter;
  frame.loss = number_or_nan(object, "loss");
  frame.grad_norm = number_or_nan(object, "grad_norm");
  for (const Json& layer : member(object, "layers", name)) {
    visit_health(frame.layers.emplace_back(),
                 [&](const char* key, double& value) { value = number_or_nan(layer, key); });
  }
  return frame;
}

NonFinite non_finite_of(const Json& object, Index iter, const std::string& name) {
  const auto text = [&](const char* key) {
    const Json& value = member(object, key, name);
    if (!value.is_string()) {
      throw FormatError(
          fmt::format("{}: expected a text as \"{}\", found another value", name, key));
    }
    return value.get<std::string>();
  };
  NonFinite found;
  found.iter = iter;
  found.pass = text("pass");
  found.stage = text("stage");
  const std::string value = text("value");
  found.value = value == "inf"    ? std::numeric_limits<double>::infinity()
                : value == "-inf" ? -std::numeric_limits<double>::infinity()
                                  : std::numeric_limits<double>::quiet_NaN();
  const Json& layer = member(object, "layer", name);
  found.layer = whole_number(layer).value_or(-1);
  for (const Json& frame : member(object, "frames", name)) {
    const Index at = whole_number(member(frame, "iter", name)).value_or(0);
    found.frames.push_back(frame_of(frame, at, name));
  }
  return found;
}

// The complete lines of a text, each with its end and its name for messages.
struct Line {
  std::string_view text;
  std::string name;
};
std::vector<Line> lines_of(std::string_view text, const std::filesystem::path& path) {
  std::vector<Line> lines;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string_view::npos;
       begin = end + 1) {
    lines.push_back({text.substr(begin, end + 1 - begin),
                     fmt::format("{} line {}", path.string(), lines.size() + 1)});
  }
  return lines;
}

// visit(object, the line's name) for each complete line.
template <typename Visit>
void for_each_line(const std::filesystem::path& path, Visit&& visit) {
  const std::string text = read_regular_file(path);
  for (const Line& line : lines_of(text, path)) visit(parse_line(line.text, line.name), line.name);
}

// The bytes of the file's beginning that stay, after damaged lines before them were taken out.
std::uint64_t kept_bytes(const std::filesystem::path& path, Index keep_through,
                         std::vector<std::string>& damages) {
  if (keep_through < 0 || !std::filesystem::exists(path)) return 0;
  const std::string text = read_regular_file(path);
  std::string kept;
  for (const Line& line : lines_of(text, path)) {
    try {
      const Json object = parse_line(line.text, line.name);
      const Index iter = object.at("iter").get<Index>();
      if (iter > keep_through) break;
      if (object.contains("watch")) frame_of(object.at("watch"), iter, line.name);
      if (object.contains("non_finite")) non_finite_of(object.at("non_finite"), iter, line.name);
      kept += line.text;
    } catch (const FormatError& error) {
      damages.emplace_back(error.what());
    }
  }
  if (!damages.empty()) write_file_durably(path, kept);
  return kept.size();
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, Index keep_through)
    : file_(path, kept_bytes(path, keep_through, damages_)) {}

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
  append_line(dump_json_compact(line));
}

void MetricsFile::append(const WatchFrame& frame) {
  append_line(dump_json_compact({{"iter", frame.iter}, {"watch", frame_json(frame)}}));
}

void MetricsFile::append(const NonFinite& found) {
  Json frames = Json::array();
  for (const WatchFrame& frame : found.frames) {
    Json one = frame_json(frame);
    one["iter"] = frame.iter;
    frames.push_back(std::move(one));
  }
  const Json what = {{"pass", found.pass},
                     {"layer", found.layer < 0 ? Json() : Json(found.layer)},
                     {"stage", found.stage},
                     {"value", value_text(found.value)},
                     {"frames", std::move(frames)}};
  append_line(dump_json_compact({{"iter", found.iter}, {"non_finite", what}}));
}

void MetricsFile::append(const LossSpike& spike) {
  const Json what = {{"loss", number(spike.loss)},
                     {"median", number(spike.median)},
                     {"limit", number(spike.limit)}};
  append_line(dump_json_compact({{"iter", spike.iter}, {"loss_spike", what}}));
}

void MetricsFile::append_line(const std::string& line) { file_.append(line + '\n'); }

std::vector<MetricsRow> read_metrics(const std::filesystem::path& path) {
  std::vector<MetricsRow> rows;
  for_each_line(path, [&](const Json& line, const std::string&) {
    for (const char* other : {"watch", "non_finite", "loss_spike"}) {
      if (line.contains(other)) return;
    }
    rows.push_back(row_of(line));
  });
  return rows;
}

WatchLines read_watch(const std::filesystem::path& path) {
  WatchLines lines;
  for_each_line(path, [&](const Json& line, const std::string& name) {
    const Index iter = line.at("iter").get<Index>();
    if (line.contains("watch")) lines.frames.push_back(frame_of(line.at("watch"), iter, name));
    if (line.contains("non_finite")) {
      lines.non_finite.push_back(non_finite_of(line.at("non_finite"), iter, name));
    }
  });
  return lines;
}

}  // namespace prenorm
