#include "prenorm/report/text_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace prenorm {
namespace {

using testing::HasSubstr;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

Chart rising() {
  Chart chart;
  chart.title = "Title";
  chart.x_label = "depth";
  chart.y_label = "size";
  chart.series.push_back({.name = "up", .points = {{0, 0}, {1, 1}, {2, 2}}});
  return chart;
}

TEST(TextChart, points_lie_where_their_values_are) {
  EXPECT_EQ(text_chart(rising(), {.columns = 5, .rows = 3}),
            "Title\n"
            "size\n"
            "       2 |    a\n"
            "         |  a\n"
            "       0 |a\n"
            "         +-----\n"
            "          0   2\n"
            "          depth\n"
            "       a  up\n");
}

TEST(TextChart, on_a_logarithmic_axis_equal_ratios_are_equal_distances) {
  Chart chart = rising();
  chart.y_log = true;
  chart.series[0].points = {{0, 1}, {1, 10}, {2, 100}, {3, 0}, {4, -1}};  // the last two: gaps
  const auto all = lines(text_chart(chart, {.columns = 3, .rows = 9}));
  EXPECT_EQ(all[2], "     100 |  a");
  EXPECT_EQ(all[6], "      10 | a");
  EXPECT_EQ(all[10], "       1 |a");
}

TEST(TextChart, the_first_series_stands_where_two_meet_and_each_has_its_letter) {
  Chart chart = rising();
  chart.series.push_back({.name = "flat", .points = {{0, 0}, {2, 0}}});
  const auto all = lines(text_chart(chart, {.columns = 5, .rows = 3}));
  EXPECT_EQ(all[4], "       0 |a   b");
  EXPECT_EQ(all.back(), "       b  flat");
}

TEST(TextChart, a_chart_of_one_value_or_of_none_is_drawn) {
  Chart chart = rising();
  chart.series[0].points = {{0, 5}, {3, 5}};
  EXPECT_THAT(text_chart(chart), HasSubstr("a"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  chart.series[0].points = {{0, nan}, {nan, 1}, {1, INFINITY}};
  EXPECT_EQ(text_chart(chart), "Title\n  nothing measured\n");
  chart.series.clear();
  EXPECT_EQ(text_chart(chart), "Title\n  nothing measured\n");
}

TEST(TextChart, lines_stay_within_their_width) {
  Chart chart = rising();
  chart.series[0].points.emplace_back(1e6, 1e9);
  for (const std::string& line : lines(text_chart(chart, {.columns = 40, .rows = 10}))) {
    EXPECT_LE(line.size(), 50u) << line;
  }
}

}  // namespace
}  // namespace prenorm
