#include "prenorm/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "prenorm/report/html.h"

namespace prenorm {
namespace {

using Point = std::pair<double, double>;

constexpr double kLeft = 58, kRight = 18, kTop = 30, kBottom = 46;
constexpr std::size_t kMostPoints = 800;  // of a line: about one a pixel

bool drawable(const Point& p) { return std::isfinite(p.first) && std::isfinite(p.second); }

// Where the chart's axis puts a value: itself, or its logarithm.
double on_axis(const Chart& chart, double y) {
  if (!chart.y_log) return y;
  return y > 0 ? std::log10(y) : std::numeric_limits<double>::quiet_NaN();
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return !(low <= high); }
  // A range with some width, also around a single value.
  void widen() {
    if (low < high) return;
    const double by = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= by;
    high += by;
  }
};

struct Frame {
  const Chart& chart;
  Range x, y;  // y as on_axis()

  double right() const { return chart.width - kRight; }
  double bottom() const { return chart.height - kBottom; }
  double to_x(double v) const { return kLeft + (v - x.low) / (x.high - x.low) * (right() - kLeft); }
  double to_y(double v) const {
    return bottom() - (v - y.low) / (y.high - y.low) * (bottom() - kTop);
  }
};

// At most about `most` points: the lowest and the highest of each stretch, in their order.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> out;
  const std::size_t stretches = most / 2;
  for (std::size_t s = 0; s < stretches; ++s) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * s / stretches);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>(points.size() * (s + 1) / stretches);
    const auto gap = std::find_if_not(begin, end, drawable);
    if (gap != end) {
      out.push_back(*gap);
      continue;
    }
    const auto by_y = [](const Point& a, const Point& b) { return a.second < b.second; };
    auto [low, high] = std::minmax_element(begin, end, by_y);
    if (low > high) std::swap(low, high);
    out.push_back(*low);
    if (high != low) out.push_back(*high);
  }
  if (out.back() != points.back()) out.push_back(points.back());
  return out;
}

std::vector<Point> placed(const Chart& chart, std::vector<Point> points) {
  for (Point& p : points) p.second = on_axis(chart, p.second);
  return points;
}

std::string curve(const Frame& frame, const Series& series) {
  std::string path;
  bool pen_down = false;
  for (const Point& p : thinned(placed(frame.chart, series.points), kMostPoints)) {
    if (!drawable(p)) {
      pen_down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", frame.to_x(p.first),
                        frame.to_y(p.second));
    pen_down = true;
  }
  return fmt::format("<path class=\"curve s{}{}{}\" d=\"{}\"/>\n", series.color,
                     series.faint ? " faint" : "", series.dashed ? " dashed" : "", path);
}

std::string dots(const Frame& frame, const Series& series) {
  std::string out;
  const std::vector<Point> points = thinned(series.points, 60);
  for (const Point& p : points) {
    const double y = on_axis(frame.chart, p.second);
    if (!drawable({p.first, y})) continue;
    out += fmt::format(
        "<circle class=\"dot f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{} at {}: {:.4g}"
        "</title></circle>\n",
        series.color, frame.to_x(p.first), frame.to_y(y), html_escape(series.name),
        short_number(p.first), p.second);
  }
  return out;
}

std::string axes(const Frame& frame) {
  const Chart& chart = frame.chart;
  std::string out;
  const auto y_ticks = chart.y_log
                           ? log_ticks(std::pow(10, frame.y.low), std::pow(10, frame.y.high), 6)
                           : round_ticks(frame.y.low, frame.y.high, 5);
  for (const double tick : y_ticks) {
    const double at = on_axis(chart, tick);
    if (!(at >= frame.y.low && at <= frame.y.high)) continue;
    const double y = frame.to_y(at);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, frame.right(), y, kLeft - 8, y + 4, short_number(tick));
  }
  const int count = std::max(2, static_cast<int>(chart.width / 110));
  for (const double tick : round_ticks(frame.x.low, frame.x.high, count)) {
    if (tick < frame.x.low || tick > frame.x.high) continue;
    const double x = frame.to_x(tick);
    out += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        x, frame.bottom(), frame.bottom() + 5, frame.bottom() + 20, short_number(tick));
  }
  out += fmt::format("<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>\n", kLeft,
                     frame.right(), frame.bottom());
  out +=
      fmt::format("<text class=\"label\" x=\"0\" y=\"14\">{}</text>\n", html_escape(chart.y_label));
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", frame.right(),
                     chart.height - 6, html_escape(chart.x_label));
  return out;
}

std::string mark(const Frame& frame) {
  const Chart& chart = frame.chart;
  if (!chart.mark_x || *chart.mark_x < frame.x.low || *chart.mark_x > frame.x.high) return "";
  const double x = frame.to_x(*chart.mark_x);
  const bool at_right = x > chart.width / 2;
  return fmt::format(
      "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
      "<text x=\"{3:.1f}\" y=\"{4}\" text-anchor=\"{5}\">{6}</text>\n",
      x, kTop, frame.bottom(), at_right ? x - 8 : x + 8, kTop + 12, at_right ? "end" : "start",
      html_escape(chart.mark_label));
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  if (!(low < high) || !std::isfinite(high - low) || count < 1) return {low};
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double unit : {1.0, 2.0, 5.0}) {
    if (unit * power >= rough * 0.999) {
      step = unit * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i == 0 ? 0 : i * step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high, int count) {
  if (!(low > 0) || !(low <= high) || !std::isfinite(high) || count < 1) return {};
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  std::vector<double> ticks;
  if (last - first <= count) {
    for (double power = first; power <= last; ++power) {
      for (const double unit : {1.0, 2.0, 5.0}) {
        if (unit != 1.0 && last - first > count / 2.0) continue;
        const double tick = unit * std::pow(10, power);
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push_back(tick);
      }
    }
    if (ticks.size() > 1) return ticks;
    ticks = round_ticks(low, high, 3);  // less than a factor of 2 or 5: nearly linear
    std::erase_if(ticks, [&](double tick) { return tick < low || tick > high; });
    return ticks;
  }
  const double step = std::ceil((last - first) / count);
  for (double power = std::ceil(first / step) * step; power <= last; power += step) {
    const double tick = std::pow(10, power);
    if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push_back(tick);
  }
  return ticks;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  for (const auto& [unit, suffix] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}) {
    // A number below 10,000 is as short without a suffix.
    if (size >= unit && size >= 1e4) return fmt::format("{:.4g}{}", value / unit, suffix);
  }
  return fmt::format("{:.4g}", value);
}

std::string line_chart(const Chart& chart) {
  Frame frame{chart, {}, {}};
  for (const Series& series : chart.series) {
    for (const Point& p : placed(chart, series.points)) {
      if (!drawable(p)) continue;
      frame.x.add(p.first);
      frame.y.add(p.second);
    }
  }
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">\n"
      "<title>{}</title>\n<desc>{}</desc>\n",
      chart.width, chart.height, html_escape(chart.title), html_escape(chart.description));
  if (frame.x.empty()) {
    return out + fmt::format(
                     "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">nothing measured yet"
                     "</text>\n</svg>\n",
                     chart.width / 2, chart.height / 2);
  }
  if (chart.y_from_zero && !chart.y_log) frame.y.add(0);
  if (frame.x.low >= 0 && frame.x.low < 0.1 * frame.x.high) frame.x.add(0);
  frame.x.widen();
  frame.y.widen();
  const double margin = 0.04 * (frame.y.high - frame.y.low);
  if (!chart.y_from_zero || chart.y_log || frame.y.low < 0) frame.y.low -= margin;
  frame.y.high += margin;
  out += axes(frame) + mark(frame);
  for (const Series& series : chart.series) out += curve(frame, series);
  for (const Series& series : chart.series) {
    if (series.dots) out += dots(frame, series);
  }
  return out + "</svg>\n";
}

}  // namespace prenorm
