// Line charts as inline SVG, drawn with the page's style variables so that they read in light and
// in dark: axes with round ticks, a title and a description for those who cannot see them.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace prenorm {

struct Series {
  std::string name;
  int color = 1;                                  // 1, 2, … of the page's palette
  std::vector<std::pair<double, double>> points;  // x ascending; a y that is not finite is a gap
  bool dots = false;                              // mark each point, with its value on hover
  bool faint = false;                             // background to another series
  bool dashed = false;                            // a rule beside what was measured
};

struct Chart {
  std::string title, description;
  std::string x_label, y_label;
  std::vector<Series> series;
  double width = 720, height = 300;
  bool y_from_zero = false;
  bool y_log = false;            // equal ratios are equal distances; what is not above 0 is a gap
  std::optional<double> mark_x;  // a vertical line, e.g. at the best evaluation
  std::string mark_label;
};

// A <svg> element. Lines of more points than can be seen are thinned, keeping each stretch's lowest
// and highest point. A chart without a finite point says so.
std::string line_chart(const Chart& chart);

// Round numbers that cover [low, high], about `count` of them: 1, 2 or 5 times a power of ten
// apart.
std::vector<double> round_ticks(double low, double high, int count);

// The same for a logarithmic axis, 0 < low <= high: 1, 2, 5 or 1 times powers of ten, or every
// other power and so on, where there are many; round_ticks() where the range is narrow.
std::vector<double> log_ticks(double low, double high, int count);

// A number as a reader wants it: "1.93", "0.001", "6e-05", "12.5k", "124M".
std::string short_number(double value);

}  // namespace prenorm
