#include "prenorm/report/watch_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::Not;

WatchFrame frame(Index iter, double size) {
  WatchFrame f;
  f.iter = iter;
  f.loss = 2.5;
  f.grad_norm = 0.9;
  for (int l = 0; l < 3; ++l) {
    f.layers.push_back({.rms = size * (l + 1),
                        .spread = size,
                        .largest = 4 * size,
                        .zeros = 0.25,
                        .max_score = 10.0 - l,
                        .grad_norm = 0.1});
  }
  return f;
}

int count_of(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(WatchReport, a_run_without_a_watch_has_no_section) { EXPECT_EQ(watch_section({}), ""); }

TEST(WatchReport, each_quantity_has_a_chart_with_a_curve_for_each_block) {
  const std::string html = watch_section({{frame(10, 1.0), frame(20, 2.0)}, {}});
  EXPECT_EQ(count_of(html, "<svg "), 6);
  EXPECT_EQ(count_of(html, "<path "), 18);
  EXPECT_THAT(html, HasSubstr("Block 2 ends at 6."));  // the size after 20 steps
  EXPECT_THAT(html, HasSubstr("those between"));
  EXPECT_THAT(html, Not(HasSubstr("notice")));
}

TEST(WatchReport, a_bad_number_is_shown_with_the_frames_that_led_to_it) {
  NonFinite bad{30, "forward", 2, "transformer.h.2.attn <scores>", INFINITY, {}};
  bad.frames = {frame(10, 1.0), frame(30, 100.0)};
  WatchLines lines{{frame(10, 1.0)}, {bad}};
  const std::string html = watch_section(lines);
  EXPECT_THAT(html, HasSubstr("Iteration 30: not finite, skipped"));
  EXPECT_THAT(html, HasSubstr("transformer.h.2.attn &lt;scores&gt; (forward): inf"));
  EXPECT_THAT(html, HasSubstr("Before it"));
  EXPECT_THAT(html, HasSubstr("In it"));
  EXPECT_THAT(html, HasSubstr("size 300 in h.2"));
  lines.non_finite.assign(8, bad);
  EXPECT_THAT(watch_section(lines), HasSubstr("And 3 more such iterations."));
}

TEST(WatchReport, a_frame_in_words_names_the_block_where_a_quantity_is_largest) {
  WatchFrame f = frame(10, 1.0);
  EXPECT_EQ(frame_text(f),
            "iter 10: loss 2.5, |g| 0.9, size 3 in h.2, largest number 4 in h.0, score 10 in h.0, "
            "gradient 0.1 in h.0");
  f.layers[1].rms = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(frame_text(f), HasSubstr("size nan in h.1"));
  f.layers[0].rms = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(frame_text(f), HasSubstr("size nan in h.0"));
  f.layers.clear();
  EXPECT_EQ(frame_text(f), "iter 10: loss 2.5, |g| 0.9");
}

}  // namespace
}  // namespace prenorm
