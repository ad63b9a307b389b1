#include "prenorm/cli/train_notices.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "tests/cli/run_program.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;

class TrainNoticesTest : public testing::Test {
 protected:
  TrainNoticesTest() {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    out_fd_ = open((scratch_ / "out").c_str(), flags, 0600);
    log_fd_ = open((scratch_ / "log").c_str(), flags, 0600);
    metrics_.emplace(scratch_ / "metrics.jsonl");
  }
  ~TrainNoticesTest() override {
    close(out_fd_);
    close(log_fd_);
  }
  std::string told(const TrainResult& result, bool json) {
    Output out(out_fd_, "out", Output::OnFailure::kThrow);
    Output log(log_fd_, "log", Output::OnFailure::kIgnore);
    tell_result(result, "run", json, {out, log});
    out.flush();
    return slurp(scratch_ / "out");
  }

  Scratch scratch_;
  int out_fd_ = -1, log_fd_ = -1;
  std::optional<MetricsFile> metrics_;
};

TEST_F(TrainNoticesTest, what_happens_goes_to_the_log_and_to_the_metrics) {
  Output log(log_fd_, "log", Output::OnFailure::kIgnore);
  TrainNotices notices(log);
  TrainCallbacks callbacks;
  notices.attach(callbacks, metrics_);
  Progress progress;
  progress.iter = 5;
  progress.max_iters = 10;
  progress.loss = 2.5;
  callbacks.on_progress(progress);
  callbacks.on_spike({.iter = 6, .loss = 9.0, .median = 2.0, .limit = 4.0});
  NonFinite bad;
  bad.iter = 7;
  bad.pass = "forward";
  bad.stage = "transformer.h.0.attn";
  bad.layer = 0;
  bad.value = std::numeric_limits<double>::infinity();
  callbacks.on_non_finite(bad);
  callbacks.on_skip({.iter = 6, .loss = bad.value, .grad_norm = 0.0, .in_a_row = 1});
  notices.notice("saved at step 7");
  log.flush();
  EXPECT_EQ(slurp(scratch_ / "log"),
            "iter 5/10  loss 2.500  lr 0.0e0\n"
            "notice: step 5: loss 9.000 is far above the median of 2.000 of the steps before\n"
            "notice: step 6: first bad number in transformer.h.0.attn (forward): inf\n"
            "notice: step 6 is skipped: loss inf, gradient norm 0\n"
            "notice: saved at step 7\n");
  const std::string metrics = slurp(scratch_ / "metrics.jsonl");
  EXPECT_THAT(metrics, HasSubstr("\"loss\":2.5"));
  EXPECT_THAT(metrics, HasSubstr("\"loss_spike\""));
  EXPECT_THAT(metrics, HasSubstr("\"non_finite\""));
}

TEST_F(TrainNoticesTest, the_end_is_told_for_people_and_for_programs) {
  TrainResult result;
  result.last.iter = 60;
  result.last.max_iters = 100;
  result.last.last_val_loss = 2.5;
  result.last.best_val_loss = 2.25;
  result.last.best_iter = 40;
  result.out_of_patience = true;
  EXPECT_THAT(told(result, false), HasSubstr("validation loss 2.5000; it was lowest at step 40, "
                                             "2.2500: run/best\nreport:   run/report.html"));
  EXPECT_THAT(told(result, true), HasSubstr("\"out_of_patience\":true"));
  result.interrupted = true;
  EXPECT_THAT(told(result, false), HasSubstr("stopped and saved at step 60 of 100"));
}

}  // namespace
}  // namespace prenorm::cli
