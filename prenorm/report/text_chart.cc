#include "prenorm/report/text_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace prenorm {
namespace {

constexpr int kLabel = 8;  // characters left of the axis
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";

double on_axis(const Chart& chart, double y) {
  if (!chart.y_log) return y;
  return y > 0 ? std::log10(y) : std::numeric_limits<double>::quiet_NaN();
}

struct Span {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  // The cell of a value, 0 to count − 1.
  int cell(double v, int count) const {
    if (!(high > low)) return count / 2;
    return static_cast<int>(std::lround((v - low) / (high - low) * (count - 1)));
  }
};

class Canvas {
 public:
  Canvas(const Chart& chart, const TextChartSize& size)
      : chart_(chart),
        size_(size),
        cells_(static_cast<std::size_t>(size.rows),
               std::string(static_cast<std::size_t>(size.columns), ' ')) {
    for (const Series& series : chart.series) {
      for (const auto& [x, value] : series.points) {
        const double y = on_axis(chart, value);
        if (!std::isfinite(x) || !std::isfinite(y)) continue;
        x_.add(x);
        y_.add(y);
      }
    }
    if (chart.y_from_zero && !chart.y_log) y_.add(0);
  }

  bool empty() const { return !(x_.low <= x_.high); }

  // The last series first, so that the first one stands where they meet.
  void draw() {
    for (std::size_t s = chart_.series.size(); s-- > 0;) {
      const char letter = kLetters[s % kLetters.size()];
      for (const auto& [x, value] : chart_.series[s].points) {
        const double y = on_axis(chart_, value);
        if (!std::isfinite(x) || !std::isfinite(y)) continue;
        row(y)[static_cast<std::size_t>(x_.cell(x, size_.columns))] = letter;
      }
    }
  }

  std::string text() const {
    std::string out = chart_.y_label + "\n";
    const auto labels = row_labels();
    for (int r = 0; r < size_.rows; ++r) {
      std::string line = fmt::format("{:>{}} |{}", labels[static_cast<std::size_t>(r)], kLabel,
                                     cells_[static_cast<std::size_t>(r)]);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    out += fmt::format("{:>{}} +{}\n", "", kLabel,
                       std::string(static_cast<std::size_t>(size_.columns), '-'));
    const std::string left = short_number(x_.low), right = short_number(x_.high);
    const auto room = static_cast<std::size_t>(size_.columns) - left.size();
    out += fmt::format("{:>{}}  {}{:>{}}\n", "", kLabel, left, right, room);
    out += fmt::format("{:>{}}  {:>{}}\n", "", kLabel, chart_.x_label, size_.columns);
    return out;
  }

 private:
  std::string& row(double y) {
    return cells_[static_cast<std::size_t>(size_.rows - 1 - y_.cell(y, size_.rows))];
  }

  std::vector<std::string> row_labels() const {
    std::vector<std::string> labels(static_cast<std::size_t>(size_.rows));
    const auto ticks = chart_.y_log
                           ? log_ticks(std::pow(10, y_.low), std::pow(10, y_.high), size_.rows / 3)
                           : round_ticks(y_.low, y_.high, size_.rows / 3);
    for (const double tick : ticks) {
      const double at = on_axis(chart_, tick);
      if (!(at >= y_.low - 1e-9 && at <= y_.high + 1e-9)) continue;
      labels[static_cast<std::size_t>(size_.rows - 1 - y_.cell(at, size_.rows))] =
          short_number(tick);
    }
    return labels;
  }

  const Chart& chart_;
  TextChartSize size_;
  std::vector<std::string> cells_;
  Span x_, y_;
};

}  // namespace

std::string text_chart(const Chart& chart, const TextChartSize& size) {
  Canvas canvas(chart, size);
  std::string out = chart.title + "\n";
  if (canvas.empty()) return out + "  nothing measured\n";
  canvas.draw();
  out += canvas.text();
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    out += fmt::format("{:>{}}  {}\n", kLetters[s % kLetters.size()], kLabel, chart.series[s].name);
  }
  return out;
}

}  // namespace prenorm
