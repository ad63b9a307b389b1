#include "prenorm/report/growth_charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/growth_fixture.h"

namespace prenorm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(GrowthCharts, the_stacks_are_drawn_and_those_that_are_held_beside_the_root_of_the_depth) {
  const GrowthReport report = small_growth_report();
  const Chart chart = stacks_chart(report, GrowthQuantity::kForward);
  ASSERT_EQ(chart.series.size(), 4u);
  EXPECT_TRUE(chart.y_log);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_THAT(chart.series[i].name, HasSubstr(report.stacks[i].name));
    ASSERT_EQ(chart.series[i].points.size(), 7u);
    EXPECT_EQ(chart.series[i].points[6].second, report.stacks[i].forward[6]);
  }
  const Chart held = held_chart(report);
  ASSERT_EQ(held.series.size(), 4u);
  EXPECT_FALSE(held.y_log);
  EXPECT_THAT(held.series[1].name, HasSubstr("pre-norm"));
  EXPECT_TRUE(held.series[3].dashed);
  EXPECT_EQ(held.series[3].points[3].second, 2.0);
  const Chart back = stacks_chart(report, GrowthQuantity::kBackward);
  ASSERT_EQ(back.series.size(), 4u);
  EXPECT_EQ(back.series[0].points[0].second, report.stacks[0].backward[0]);
  EXPECT_THAT(back.description, HasSubstr("pre-norm: "));
}

TEST(GrowthCharts, a_pre_norm_model_shows_what_its_blocks_read_a_post_norm_one_the_stream_alone) {
  const GrowthReport report = small_growth_report();
  const Chart chart = models_chart(report.initial, GrowthQuantity::kForward);
  ASSERT_EQ(chart.series.size(), 3u);
  EXPECT_THAT(chart.series[2].points, ElementsAre(std::pair(0.0, 1.0), std::pair(1.0, 1.0)));
  EXPECT_EQ(models_chart(report.initial, GrowthQuantity::kBackward).series.size(), 2u);
  const Chart parameters = parameters_chart(report.initial);
  EXPECT_THAT(parameters.series[0].points, ElementsAre(std::pair(0.0, 5.0), std::pair(1.0, 4.0)));
}

TEST(GrowthCharts, losses_are_drawn_for_their_depth_each_step_faint_and_the_entropy_as_a_rule) {
  const GrowthReport report = small_growth_report();
  const Chart chart = losses_chart(*report.training, 12);
  ASSERT_EQ(chart.series.size(), 5u);
  EXPECT_EQ(chart.series[0].name, "12 layers, pre-norm");
  EXPECT_TRUE(chart.series[2].faint);
  EXPECT_EQ(chart.series[2].points.front(), std::pair(1.0, 4.0));
  EXPECT_THAT(chart.series[4].points, ElementsAre(std::pair(1.0, 3.9), std::pair(100.0, 3.9)));
  EXPECT_TRUE(losses_chart(*report.training, 24).series.empty());
}

TEST(GrowthCharts, tables_show_the_first_layers_and_then_every_doubling) {
  EXPECT_THAT(shown_depths(1), ElementsAre(0, 1));
  EXPECT_THAT(shown_depths(3), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(shown_depths(4), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(shown_depths(12), ElementsAre(0, 1, 2, 3, 4, 8, 12));
  EXPECT_THAT(shown_depths(48), ElementsAre(0, 1, 2, 3, 4, 8, 16, 32, 48));
}

}  // namespace
}  // namespace prenorm
