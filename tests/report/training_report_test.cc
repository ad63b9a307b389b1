#include "prenorm/report/training_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prenorm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TrainingReport small_report() {
  TrainingReport report;
  report.title = "my run";
  report.parameters = 804096;
  report.options.max_iters = 30;
  for (const Index iter : {0, 10, 20, 30}) {
    MetricsRow row;
    row.iter = iter;
    if (iter > 0) row.loss = 4.0 - 0.05 * static_cast<double>(iter);
    if (iter != 10) row.val_loss = iter == 20 ? 3.125 : 3.5;
    row.learning_rate = 1e-3;
    row.grad_norm = 1.0;
    row.tokens_per_second = 12345;
    row.elapsed = 3661;
    report.metrics.push_back(row);
  }
  return report;
}

TEST(TrainingReport, shows_losses_best_evaluation_time_and_speed) {
  const std::string html = training_report_html(small_report());
  EXPECT_THAT(html, HasSubstr("<dd>3.5000</dd>"));
  EXPECT_THAT(html, HasSubstr("3.1250 at iteration 20"));
  EXPECT_THAT(html, HasSubstr("Training loss ends at 2.5000, validation loss at 3.5000."));
  EXPECT_THAT(html, HasSubstr("<title>validation at 20: 3.125</title>"));
  EXPECT_THAT(html, HasSubstr("1 h 01 min"));
  EXPECT_THAT(html, HasSubstr("12.35k"));
  EXPECT_THAT(html, HasSubstr("804,096"));
  EXPECT_THAT(html, HasSubstr("30 of 30"));
}

TEST(TrainingReport, has_four_charts_and_every_option_with_its_final_value) {
  TrainingReport report = small_report();
  report.options.learning_rate = 5e-4;
  const std::string html = training_report_html(report);
  std::size_t charts = 0;
  for (std::size_t at = html.find("<svg"); at != std::string::npos;
       at = html.find("<svg", at + 1)) {
    ++charts;
  }
  EXPECT_EQ(charts, 4u);
  EXPECT_THAT(html, HasSubstr("<dt>min_lr</dt><dd>5e-05</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>lr_decay_iters</dt><dd>30</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>lr_schedule</dt><dd>cosine</dd>"));
}

TEST(TrainingReport, text_from_outside_is_escaped) {
  TrainingReport report = small_report();
  const std::string evil = "<script>alert(1)</script>";
  report.title = evil;
  report.facts = {{evil, evil}};
  report.files = {{evil, evil}};
  report.samples = {{evil, evil}};
  EXPECT_THAT(training_report_html(report), Not(HasSubstr("<script")));
}

TEST(TrainingReport, says_that_a_run_was_interrupted_and_that_steps_were_skipped) {
  TrainingReport report = small_report();
  EXPECT_THAT(training_report_html(report), Not(HasSubstr("interrupted")));
  report.interrupted = true;
  report.skipped_steps = 3;
  const std::string html = training_report_html(report);
  EXPECT_THAT(html, HasSubstr("interrupted"));
  EXPECT_THAT(html, HasSubstr("3, for numbers that were not finite"));
}

TEST(TrainingReport, a_run_without_validation_or_without_any_line_has_a_report) {
  TrainingReport report = small_report();
  for (MetricsRow& row : report.metrics) row.val_loss.reset();
  EXPECT_THAT(training_report_html(report), HasSubstr("<dt>training loss</dt><dd>2.5000</dd>"));
  report.metrics.clear();
  EXPECT_THAT(training_report_html(report), HasSubstr("nothing measured yet"));
}

}  // namespace
}  // namespace prenorm
