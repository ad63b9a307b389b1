#include "prenorm/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Metrics : public ::testing::Test {
 protected:
  Metrics() {
    folder_ = std::filesystem::temp_directory_path() /
              ("prenorm_metrics_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "metrics.jsonl";
  }
  ~Metrics() override { std::filesystem::remove_all(folder_); }

  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }
  std::vector<Index> iters() const {
    std::vector<Index> out;
    for (const MetricsRow& row : read_metrics(path_)) out.push_back(row.iter);
    return out;
  }
  void write(const std::string& bytes) const { std::ofstream(path_) << bytes; }

  std::filesystem::path folder_, path_;
};

Progress at(Index iter) {
  Progress out;
  out.iter = iter;
  out.loss = 2.5;
  out.learning_rate = 6e-4;
  out.grad_norm = 0.91;
  out.tokens_per_second = 8100;
  out.elapsed_seconds = 33.125;
  return out;
}

TEST_F(Metrics, a_line_reads_back_as_written) {
  MetricsFile file(path_);
  Progress progress = at(120);
  progress.val_loss = 2.6;
  progress.loss = 1.0 / 3;
  file.append(progress);
  file.append(at(130));
  EXPECT_THAT(text(), HasSubstr("\"iter\":120,"));
  const std::vector<MetricsRow> rows = read_metrics(path_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].iter, 120);
  EXPECT_EQ(rows[0].loss, 1.0 / 3);
  EXPECT_EQ(rows[0].val_loss, 2.6);
  EXPECT_EQ(rows[0].learning_rate, 6e-4);
  EXPECT_EQ(rows[0].grad_norm, 0.91);
  EXPECT_EQ(rows[0].tokens_per_second, 8100.0);
  EXPECT_EQ(rows[0].elapsed, 33.125);
  EXPECT_FALSE(rows[1].val_loss);
}

TEST_F(Metrics, what_is_not_finite_is_null_and_the_file_stays_readable) {
  MetricsFile file(path_);
  Progress progress = at(1);
  progress.loss = std::numeric_limits<double>::quiet_NaN();
  progress.val_loss = std::numeric_limits<double>::infinity();
  progress.grad_norm.reset();
  file.append(progress);
  EXPECT_THAT(text(), HasSubstr("\"loss\":null"));
  EXPECT_THAT(text(), HasSubstr("\"val_loss\":null"));
  EXPECT_THAT(text(), HasSubstr("\"grad_norm\":null"));
  const std::vector<MetricsRow> rows = read_metrics(path_);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].loss || rows[0].val_loss || rows[0].grad_norm);
}

TEST_F(Metrics, a_new_run_starts_an_empty_file) {
  { MetricsFile(path_).append(at(10)); }
  MetricsFile file(path_);
  EXPECT_EQ(text(), "");
}

TEST_F(Metrics, a_resumed_run_doubles_and_loses_no_line) {
  {
    MetricsFile file(path_);
    for (const Index iter : {0, 10, 20, 30, 40}) file.append(at(iter));
  }
  const std::string whole = text();
  write(whole + R"({"iter":50,"lo)");  // the process died in the middle of a line
  MetricsFile file(path_, 20);         // and its newest state is of step 20
  EXPECT_THAT(iters(), ElementsAre(0, 10, 20));
  for (const Index iter : {30, 40}) file.append(at(iter));
  EXPECT_EQ(text(), whole);
}

TEST_F(Metrics, resuming_at_the_last_line_keeps_all_and_drops_a_half_written_one) {
  { MetricsFile(path_).append(at(10)); }
  const std::string whole = text();
  write(whole + R"({"iter":20)");
  EXPECT_THAT(iters(), ElementsAre(10));
  MetricsFile file(path_, 10);
  EXPECT_EQ(text(), whole);
}

TEST_F(Metrics, a_line_of_something_else_is_an_error_that_names_it) {
  write("{\"iter\":1}\n{\"iter\":\"two\"}\n");
  try {
    read_metrics(path_);
    FAIL() << "accepted";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("metrics.jsonl line 2: expected "));
  }
}

TEST_F(Metrics, resuming_takes_damaged_lines_out_and_names_them) {
  write("{\"iter\":1}\n{\"iter\":\"two\"}\n{\"iter\":3}\n{\"iter\":4,\"watch\":{}}\n");
  MetricsFile file(path_, 5);
  ASSERT_EQ(file.damages().size(), 2u);
  EXPECT_THAT(file.damages()[0], HasSubstr("metrics.jsonl line 2: expected "));
  EXPECT_THAT(file.damages()[1], HasSubstr("metrics.jsonl line 4: expected "));
  file.append(at(6));
  EXPECT_THAT(iters(), ElementsAre(1, 3, 6));
}

TEST_F(Metrics, a_loss_spike_has_a_line_of_its_own_that_is_no_line_of_progress) {
  MetricsFile file(path_);
  file.append(at(10));
  file.append(LossSpike{11, 9.5, 2.25, 4.5});
  EXPECT_THAT(text(),
              HasSubstr(R"({"iter":11,"loss_spike":{"loss":9.5,"median":2.25,"limit":4.5}})"));
  EXPECT_THAT(iters(), ElementsAre(10));
}

TEST_F(Metrics, a_folder_that_is_not_there_is_an_error_that_names_the_file) {
  EXPECT_THROW(MetricsFile(folder_ / "none" / "metrics.jsonl"), IoError);
}

TEST_F(Metrics, a_full_disk_is_an_error) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  std::filesystem::create_symlink("/dev/full", path_);
  EXPECT_THROW(MetricsFile(path_).append(at(1)), IoError);
}

WatchFrame frame(Index iter) {
  WatchFrame out;
  out.iter = iter;
  out.loss = 2.5;
  out.grad_norm = std::numeric_limits<double>::quiet_NaN();
  out.layers = {{1.0 / 3, 0.25, 5.0, 0.5, -2.0, 0.75}, {2, 3, 4, 0, 6, 7}};
  return out;
}

TEST_F(Metrics, lines_of_the_watch_read_back_as_written_and_are_no_rows) {
  MetricsFile file(path_);
  NonFinite bad{30,
                "forward",
                3,
                "transformer.h.3.attn scores",
                std::numeric_limits<double>::infinity(),
                {frame(10), frame(20)}};
  file.append(frame(10));
  file.append(at(10));
  file.append(bad);
  bad.layer = -1;
  bad.value = std::numeric_limits<double>::quiet_NaN();
  file.append(bad);
  EXPECT_THAT(iters(), ElementsAre(10));
  EXPECT_THAT(text(), HasSubstr("\"grad_norm\":null"));
  const WatchLines lines = read_watch(path_);
  ASSERT_EQ(lines.frames.size(), 1u);
  EXPECT_EQ(lines.frames[0].iter, 10);
  EXPECT_EQ(lines.frames[0].loss, 2.5);
  EXPECT_TRUE(std::isnan(lines.frames[0].grad_norm));
  ASSERT_EQ(lines.frames[0].layers.size(), 2u);
  const LayerHealth& health = lines.frames[0].layers[0];
  EXPECT_EQ(health.rms, 1.0 / 3);
  EXPECT_EQ(health.spread, 0.25);
  EXPECT_EQ(health.largest, 5.0);
  EXPECT_EQ(health.zeros, 0.5);
  EXPECT_EQ(health.max_score, -2.0);
  EXPECT_EQ(health.grad_norm, 0.75);
  ASSERT_EQ(lines.non_finite.size(), 2u);
  EXPECT_EQ(lines.non_finite[0].iter, 30);
  EXPECT_EQ(lines.non_finite[0].pass, "forward");
  EXPECT_EQ(lines.non_finite[0].layer, 3);
  EXPECT_EQ(lines.non_finite[0].stage, "transformer.h.3.attn scores");
  EXPECT_TRUE(std::isinf(lines.non_finite[0].value));
  ASSERT_EQ(lines.non_finite[0].frames.size(), 2u);
  EXPECT_EQ(lines.non_finite[0].frames[1].iter, 20);
  EXPECT_EQ(lines.non_finite[1].layer, -1);
  EXPECT_TRUE(std::isnan(lines.non_finite[1].value));
}

TEST_F(Metrics, resuming_cuts_the_lines_of_the_watch_too) {
  {
    MetricsFile file(path_);
    for (const Index iter : {10, 20, 30}) {
      file.append(frame(iter));
      file.append(at(iter));
    }
  }
  MetricsFile file(path_, 20);
  EXPECT_EQ(read_watch(path_).frames.size(), 2u);
  EXPECT_THAT(iters(), ElementsAre(10, 20));
}

TEST_F(Metrics, a_damaged_line_of_the_watch_is_an_error) {
  for (const char* line :
       {R"({"iter":1,"watch":3})", R"({"iter":1,"watch":{"loss":1}})",
        R"({"iter":1,"non_finite":{"pass":"forward"}})",
        R"({"iter":1,"non_finite":{"pass":1,"stage":"x","value":"nan","frames":[]}})"}) {
    write(std::string(line) + "\n");
    EXPECT_THROW(read_watch(path_), FormatError) << line;
  }
}

}  // namespace
}  // namespace prenorm
