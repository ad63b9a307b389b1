#include "prenorm/report/growth_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/report/growth_fixture.h"

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(GrowthReport, the_text_has_numbers_picture_and_meaning_of_every_part) {
  const GrowthReport report = small_growth_report();
  const std::string text = growth_text(report);
  for (const char* part : {"STACKS AT INITIALISATION", "MODELS AT INITIALISATION", "CHECKPOINT",
                           "TRAINING", "√(1 + l)", "On notes.txt.", "no warm-up", "run <1>"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  for (const GrowthCurve& curve : report.stacks) EXPECT_THAT(text, HasSubstr(curve.meaning));
  EXPECT_THAT(text, HasSubstr("12 layers, post-norm"));
}

TEST(GrowthReport, what_was_not_measured_is_not_told) {
  GrowthReport report = small_growth_report();
  report.checkpoint.reset();
  report.training.reset();
  for (const std::string& page : {growth_text(report), growth_html(report)}) {
    EXPECT_THAT(page, Not(HasSubstr("CHECKPOINT")));
    EXPECT_THAT(page, Not(HasSubstr("Checkpoint")));
    EXPECT_THAT(page, Not(HasSubstr("warm-up")));
  }
}

TEST(GrowthReport, the_page_stands_alone_and_escapes_names) {
  const std::string page = growth_html(small_growth_report());
  EXPECT_THAT(page, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("run &lt;1&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("run <1>")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("http://localhost")));
  std::size_t pictures = 0, at = 0;
  while ((at = page.find("<svg ", at)) != std::string::npos) {
    EXPECT_NE(page.find("<desc>", at), std::string::npos);
    ++at;
    ++pictures;
  }
  EXPECT_EQ(pictures, 3u + 3u + 3u + 1u);
}

TEST(GrowthReport, a_run_learns_is_stuck_or_breaks_down_by_its_losses) {
  StabilityRun run;
  EXPECT_EQ(stability_verdict(run, 3.0), "not trained");
  run.losses = std::vector<double>(20, 2.0);
  run.losses.front() = 4.0;
  EXPECT_EQ(stability_verdict(run, 3.0), "learns");
  EXPECT_THAT(stability_verdict(run, 2.05), HasSubstr("stuck"));
  run.losses.back() = run.losses[18] = 9.0;
  EXPECT_THAT(stability_verdict(run, 3.0), HasSubstr("breaks down"));
  run.losses.back() = run.losses[18] = 2.0;
  run.skipped_steps = 1;
  EXPECT_THAT(stability_verdict(run, 3.0), HasSubstr("not finite"));
  run.skipped_steps = 0;
  run.losses.back() = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(stability_verdict(run, 3.0), HasSubstr("not finite"));
}

}  // namespace
}  // namespace prenorm
