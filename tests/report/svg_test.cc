#include "prenorm/report/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

namespace prenorm {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int count_of(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// The path's points, as drawn.
std::vector<std::pair<double, double>> drawn(const std::string& svg) {
  std::vector<std::pair<double, double>> out;
  const std::regex point("[ML]([-0-9.]+) ([-0-9.]+)");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), point); it != std::sregex_iterator();
       ++it) {
    out.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  }
  return out;
}

Chart chart_of(std::vector<std::pair<double, double>> points) {
  Chart chart;
  chart.title = "Loss";
  chart.series.push_back({.name = "train", .points = std::move(points)});
  return chart;
}

TEST(Svg, ticks_are_round_and_inside) {
  EXPECT_THAT(round_ticks(0, 1, 5), ElementsAre(DoubleEq(0), DoubleEq(0.2), DoubleEq(0.4),
                                                DoubleEq(0.6), DoubleEq(0.8), DoubleEq(1)));
  EXPECT_THAT(round_ticks(1.7, 4.2, 3), ElementsAre(DoubleEq(2), DoubleEq(3), DoubleEq(4)));
  EXPECT_THAT(round_ticks(0, 2000, 4), ElementsAre(0, 500, 1000, 1500, 2000));
  EXPECT_THAT(round_ticks(-1, 1, 2), ElementsAre(-1, 0, 1));
  EXPECT_THAT(round_ticks(5, 5, 4), ElementsAre(5));
}

TEST(Svg, numbers_are_short) {
  EXPECT_EQ(short_number(1.93), "1.93");
  EXPECT_EQ(short_number(2000), "2000");
  EXPECT_EQ(short_number(12500), "12.5k");
  EXPECT_EQ(short_number(124439808), "124.4M");
  EXPECT_EQ(short_number(6e-5), "6e-05");
  EXPECT_EQ(short_number(-30000), "-30k");
}

TEST(Svg, points_lie_where_their_values_are) {
  const std::string svg = line_chart(chart_of({{0, 4}, {100, 3}, {200, 2}}));
  const auto points = drawn(svg);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].first, (points[0].first + points[2].first) / 2, 0.11);
  EXPECT_NEAR(points[1].second, (points[0].second + points[2].second) / 2, 0.11);
  EXPECT_LT(points[0].second, points[2].second);  // higher values are higher up
  for (const auto& [x, y] : points) {
    EXPECT_GE(x, 0);
    EXPECT_LE(x, 720);
    EXPECT_GE(y, 0);
    EXPECT_LE(y, 300);
  }
}

TEST(Svg, has_a_title_a_description_and_labels_all_escaped) {
  Chart chart = chart_of({{0, 1}, {1, 2}});
  chart.title = "a<b";
  chart.description = "c&d";
  chart.x_label = "<x>";
  chart.y_label = "<y>";
  chart.series[0].dots = true;
  chart.series[0].name = "<s>";
  const std::string svg = line_chart(chart);
  EXPECT_THAT(svg, HasSubstr("role=\"img\""));
  EXPECT_THAT(svg, HasSubstr("<title>a&lt;b</title>\n<desc>c&amp;d</desc>"));
  EXPECT_THAT(svg, HasSubstr("&lt;x&gt;"));
  EXPECT_THAT(svg, HasSubstr("&lt;y&gt;"));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;s&gt; at 1: 2</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("<s>")));
}

TEST(Svg, a_value_that_is_not_finite_is_a_gap_and_never_in_the_file) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = line_chart(chart_of({{0, 1}, {1, 2}, {2, nan}, {3, 2}, {4, 3}}));
  EXPECT_EQ(drawn(svg).size(), 4u);
  EXPECT_EQ(count_of(svg, "M"), 2);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Svg, charts_of_nothing_of_one_point_and_of_equal_values_are_drawn) {
  EXPECT_THAT(line_chart(chart_of({})), HasSubstr("nothing measured yet"));
  for (const auto& svg : {line_chart(chart_of({{5, 2}})), line_chart(chart_of({{0, 0}, {1, 0}}))}) {
    EXPECT_THAT(svg, HasSubstr("</svg>"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(Svg, a_long_line_is_thinned_and_keeps_its_spike) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100000; ++i) points.emplace_back(i, std::sin(i * 0.01));
  points[54321].second = 50;
  const auto shown = drawn(line_chart(chart_of(points)));
  EXPECT_LT(shown.size(), 1000u);
  double highest = 1e9, usual = 0;
  for (const auto& [x, y] : shown) {
    highest = std::min(highest, y);
    usual = std::max(usual, y);
  }
  EXPECT_GT(usual - highest, 200);
}

TEST(Svg, a_logarithmic_axis_puts_equal_ratios_at_equal_distances_and_skips_what_has_none) {
  Chart chart = chart_of({{0, 1}, {1, 10}, {2, 100}, {3, 0}, {4, 1000}});
  chart.y_log = true;
  const std::string svg = line_chart(chart);
  const auto points = drawn(svg);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_NEAR(points[0].second - points[1].second, points[1].second - points[2].second, 0.11);
  EXPECT_NEAR(points[1].second - points[2].second, points[2].second - points[3].second, 0.11);
  EXPECT_EQ(count_of(svg, "M"), 2);  // the zero is a gap
  EXPECT_THAT(svg, HasSubstr(">1000</text>"));
}

TEST(Svg, logarithmic_ticks_are_powers_of_ten_with_twos_and_fives_where_there_is_room) {
  EXPECT_THAT(log_ticks(1, 8, 6), ElementsAre(DoubleEq(1), DoubleEq(2), DoubleEq(5)));
  EXPECT_THAT(log_ticks(1, 1e4, 6), ElementsAre(DoubleEq(1), DoubleEq(10), DoubleEq(100),
                                                DoubleEq(1000), DoubleEq(10000)));
  EXPECT_THAT(log_ticks(1, 1e12, 6),
              ElementsAre(DoubleEq(1), DoubleEq(1e2), DoubleEq(1e4), DoubleEq(1e6), DoubleEq(1e8),
                          DoubleEq(1e10), DoubleEq(1e12)));
  EXPECT_THAT(log_ticks(2.1, 2.9, 6), ElementsAre(DoubleEq(2.5)));
  EXPECT_TRUE(log_ticks(0, 1, 6).empty());
  EXPECT_TRUE(log_ticks(2, 1, 6).empty());
}

TEST(Svg, a_rule_is_dashed) {
  Chart chart = chart_of({{0, 1}, {1, 2}});
  chart.series[0].dashed = true;
  EXPECT_THAT(line_chart(chart), HasSubstr("class=\"curve s1 dashed\""));
}

}  // namespace
}  // namespace prenorm
