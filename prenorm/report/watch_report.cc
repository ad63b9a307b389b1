#include "prenorm/report/watch_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "prenorm/report/html.h"
#include "prenorm/report/svg.h"

namespace prenorm {
namespace {

constexpr std::size_t kFewFrames = 12;  // so few that a line may have no length
constexpr int kFirst = 1, kLast = 2, kBetween = 4;

using Field = double LayerHealth::*;

struct Quantity {
  const char *title, *unit;
  Field field;
  bool log;
};

// A score may be negative and a share 0: those two are on linear axes.
constexpr Quantity kQuantities[] = {
    {"Size", "RMS of the stream after the block", &LayerHealth::rms, true},
    {"Spread", "standard deviation of the stream", &LayerHealth::spread, true},
    {"Largest number", "of the stream, its size", &LayerHealth::largest, true},
    {"Units that are off", "share after the activation", &LayerHealth::zeros, false},
    {"Largest score", "of attention", &LayerHealth::max_score, false},
    {"Gradient norm", "of the block's parameters", &LayerHealth::grad_norm, true},
};

std::size_t depth_of(const std::vector<WatchFrame>& frames) {
  std::size_t layers = 0;
  for (const WatchFrame& frame : frames) layers = std::max(layers, frame.layers.size());
  return layers;
}

std::string chart_of(const std::vector<WatchFrame>& frames, const Quantity& quantity) {
  const std::size_t layers = depth_of(frames);
  Chart chart;
  chart.title = std::string(quantity.title) + " of each block by iteration";
  chart.x_label = "iteration";
  chart.y_label = quantity.unit;
  chart.width = 330;
  chart.height = 220;
  chart.y_log = quantity.log;
  chart.y_from_zero = quantity.field == &LayerHealth::zeros;
  for (std::size_t l = 0; l < layers; ++l) {
    const bool first = l == 0, last = l + 1 == layers;
    Series series;
    series.name = fmt::format("block {}", l);
    series.color = first ? kFirst : last ? kLast : kBetween;
    series.faint = !first && !last;
    series.dots = !series.faint && frames.size() <= kFewFrames;
    for (const WatchFrame& frame : frames) {
      if (l >= frame.layers.size()) continue;
      series.points.emplace_back(static_cast<double>(frame.iter), frame.layers[l].*quantity.field);
    }
    if (!series.points.empty()) {
      chart.description +=
          fmt::format("Block {} ends at {}. ", l, short_number(series.points.back().second));
    }
    chart.series.push_back(std::move(series));
  }
  return fmt::format("<section class=\"card\">\n<h2>{}</h2>\n<figure>\n{}</figure>\n</section>\n",
                     html_escape(quantity.title), line_chart(chart));
}

std::string non_finite_table(const NonFinite& found) {
  TextRows rows{{"First bad number", non_finite_text(found)}};
  for (const WatchFrame& frame : found.frames) {
    rows.emplace_back(frame.iter < found.iter ? "Before it" : "In it", frame_text(frame));
  }
  return "<section class=\"card notice\">\n" +
         html_table(fmt::format("Iteration {}: not finite, skipped", found.iter), rows) +
         "</section>\n";
}

std::string three_digits(double value) {
  return std::isfinite(value) ? fmt::format("{:.3g}", value) : value_text(value);
}

// The block where a quantity is largest; a NaN is larger than any number.
std::string worst(const WatchFrame& frame, const char* what, Field field) {
  std::size_t at = 0;
  for (std::size_t l = 1; l < frame.layers.size() && !std::isnan(frame.layers[at].*field); ++l) {
    if (!(frame.layers[l].*field <= frame.layers[at].*field)) at = l;
  }
  return fmt::format(", {} {} in h.{}", what, three_digits(frame.layers[at].*field), at);
}

}  // namespace

std::string watch_section(const WatchLines& lines) {
  constexpr std::size_t kShown = 5;  // of steps whose numbers were not finite: the first ones
  std::string out;
  if (lines.frames.empty() && lines.non_finite.empty()) return out;
  out = "<h2 class=\"part\">Health by block</h2>\n";
  for (std::size_t i = 0; i < std::min(kShown, lines.non_finite.size()); ++i) {
    out += non_finite_table(lines.non_finite[i]);
  }
  if (lines.non_finite.size() > kShown) {
    out += fmt::format("<p class=\"lead\">And {} more such iterations.</p>\n",
                       lines.non_finite.size() - kShown);
  }
  if (lines.frames.empty()) return out;
  const std::size_t layers = depth_of(lines.frames);
  out += "<ul class=\"legend\"><li><i class=\"k1\"></i>first block</li>";
  if (layers > 1) out += "<li><i class=\"k2\"></i>last block</li>";
  if (layers > 2) out += "<li><i class=\"k4\"></i>those between, faint</li>";
  out += "</ul>\n<div class=\"columns\">\n";
  for (const Quantity& quantity : kQuantities) out += chart_of(lines.frames, quantity);
  return out + "</div>\n";
}

std::string non_finite_text(const NonFinite& found) {
  return fmt::format("{} ({}): {}", found.stage, found.pass, value_text(found.value));
}

std::string frame_text(const WatchFrame& frame) {
  const std::string loss =
      std::isfinite(frame.loss) ? fmt::format("{:.4g}", frame.loss) : value_text(frame.loss);
  std::string out =
      fmt::format("iter {}: loss {}, |g| {}", frame.iter, loss, three_digits(frame.grad_norm));
  if (frame.layers.empty()) return out;
  out += worst(frame, "size", &LayerHealth::rms);
  out += worst(frame, "largest number", &LayerHealth::largest);
  out += worst(frame, "score", &LayerHealth::max_score);
  return out + worst(frame, "gradient", &LayerHealth::grad_norm);
}

}  // namespace prenorm
