#include "prenorm/train/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "prenorm/base/checksum.h"
#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/model/checkpoint.h"
#include "tests/train/small_run.h"

namespace prenorm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::small_config;
using testing_support::small_options;
using testing_support::SmallRun;
using testing_support::TemporaryFolder;

TrainOptions options_with_accumulation() {
  TrainOptions options = small_options();
  options.gradient_accumulation_steps = 2;
  return options;
}

GptConfig config_with_dropout() {
  GptConfig config = small_config();
  config.attn_pdrop = config.resid_pdrop = config.embd_pdrop = 0.1;
  return config;
}

// What progress lines say, without times.
using Line = std::tuple<Index, std::optional<double>, std::optional<double>, std::optional<double>,
                        double, std::optional<double>>;
Line line_of(const Progress& p) {
  return {p.iter, p.loss, p.val_loss, p.best_val_loss, p.learning_rate, p.grad_norm};
}

// A run in sessions, each in a process of its own as far as memory goes: stopped after each of
// `stops`, saved, loaded into a new model and trainer.
std::vector<float> run_in_sessions(std::vector<Index> stops, std::vector<Line>& lines) {
  const TemporaryFolder folder("resume_" + std::to_string(stops.size()));
  stops.push_back(1000);
  for (const Index stop : stops) {
    SmallRun* run_in_use = nullptr;
    SmallRun run(options_with_accumulation(),
                 {.on_progress = [&](const Progress& p) { lines.push_back(line_of(p)); },
                  .on_save =
                      [&](SaveReason) {
                        save_pretrained(run_in_use->model, folder.path());
                        save_training_state(folder.path(), *run_in_use->trainer);
                      },
                  .on_skip = {},
                  .should_stop = [&] { return run_in_use->trainer->position().iter >= stop; }},
                 config_with_dropout());
    run_in_use = &run;
    if (has_training_state(folder.path())) {
      load_weights(run.model, folder.path() / "model.safetensors");
      EXPECT_THAT(load_training_state(folder.path(), *run.trainer), IsEmpty());
    }
    const TrainResult result = run.trainer->train();
    EXPECT_EQ(result.interrupted, stop < 20);
    if (!result.interrupted) return run.weights();
  }
  return {};
}

TEST(State, a_run_in_sessions_ends_in_the_bits_and_lines_of_an_uninterrupted_one) {
  std::vector<Line> whole_lines;
  const std::vector<float> whole = run_in_sessions({}, whole_lines);
  ASSERT_FALSE(whole.empty());
  // In the middle of a log interval, at an evaluation, right after it, twice at the same step.
  for (const std::vector<Index>& stops :
       {std::vector<Index>{7}, {8}, {9, 9, 10}, {0, 1, 2, 3, 19}}) {
    std::vector<Line> lines;
    EXPECT_EQ(run_in_sessions(stops, lines), whole);
    EXPECT_EQ(lines, whole_lines);
  }
}

class SavedState : public ::testing::Test {
 protected:
  SavedState()
      : folder_(std::string("state_") +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    for (int i = 0; i < 3; ++i) saved_.trainer->step();
    save_training_state(folder_.path(), *saved_.trainer);
  }

  // What loading the state into another run says: an error, or the lines of changed options.
  std::string load(const TrainOptions& options, const GptConfig& config = small_config(),
                   const std::function<void(SmallRun&)>& change = {}) {
    SmallRun run(options, {}, config);
    if (config.n_embd == small_config().n_embd) {
      std::ranges::copy(saved_.weights(), run.model.parameters().values().begin());
    }
    if (change) change(run);
    try {
      std::string lines;
      for (const std::string& line : load_training_state(folder_.path(), *run.trainer)) {
        lines += line + "\n";
      }
      return lines;
    } catch (const Error& error) {
      EXPECT_EQ(run.trainer->position().iter, 0);
      return std::string("error: ") + error.what();
    }
  }
  void rewrite(const std::string& from, const std::string& to) {
    const auto path = folder_.path() / "training_state.json";
    std::string text;
    std::getline(std::ifstream(path), text, '\0');
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
    // As a program would that means what it writes: with the checksum of the new text.
    text.resize(text.rfind(",\n  \"crc32\""));
    const std::string checksum = checksum_text(crc32(text));
    std::ofstream(path) << text << ",\n  \"crc32\": \"" << checksum << "\"\n}\n";
  }

  TemporaryFolder folder_;
  SmallRun saved_;
};

TEST_F(SavedState, tells_its_options_and_step) {
  EXPECT_TRUE(has_training_state(folder_.path()));
  const TrainingStateSummary summary = read_training_state_summary(folder_.path());
  EXPECT_EQ(summary.iter, 3);
  EXPECT_EQ(summary.options.batch_size, 4);
  EXPECT_EQ(summary.options.learning_rate, 3e-3);
  EXPECT_EQ(summary.options.warmup_iters, 2);
  EXPECT_FALSE(summary.options.min_lr);
  EXPECT_EQ(summary.options.seed, 42u);
}

TEST_F(SavedState, options_that_may_change_do_and_are_named) {
  EXPECT_EQ(load(small_options()), "");
  TrainOptions options = small_options();
  options.max_iters = 40;
  options.min_lr = 1e-3;
  options.lr_schedule = LrSchedule::kLinear;
  EXPECT_EQ(load(options),
            "min_lr: default before, 0.001 now\n"
            "lr_schedule: \"cosine\" before, \"linear\" now\n"
            "max_iters: 20 before, 40 now\n");
}

TEST_F(SavedState, what_would_change_the_runs_meaning_is_refused_by_name) {
  TrainOptions options = small_options();
  options.seed = 43;
  EXPECT_THAT(load(options), HasSubstr("expected the run's seed 42, found 43"));
  options = small_options();
  options.batch_size = 8;
  EXPECT_THAT(load(options), HasSubstr("expected the run's batch_size 4, found 8"));
  options = small_options();
  options.gradient_accumulation_steps = 2;
  EXPECT_THAT(load(options), HasSubstr("gradient_accumulation_steps 1, found 2"));
  options = small_options();
  options.dtype = Products::kBfloat16Tile;
  EXPECT_THAT(load(options), HasSubstr("expected the run's dtype \"f32\", found \"bf16-tile\""));
  GptConfig config = small_config();
  config.n_head = 4;
  EXPECT_THAT(load(small_options(), config), HasSubstr("n_head 2, found 4"));
  config = small_config();
  config.n_embd = 32;
  EXPECT_THAT(load(small_options(), config), HasSubstr("n_embd 16, found 32"));
}

TEST_F(SavedState, other_weights_and_other_data_are_refused) {
  EXPECT_THAT(load(small_options(), small_config(),
                   [](SmallRun& run) { run.model.parameters().values()[3] += 1e-6f; }),
              HasSubstr("expected the run's weights "));
  EXPECT_THAT(load(small_options(), small_config(), [](SmallRun& run) { ++run.text[5]; }),
              HasSubstr("expected the run's fingerprint "));
}

TEST_F(SavedState, moments_of_another_step_are_refused) {
  rewrite("\"iter\": 3", "\"iter\": 4");
  EXPECT_THAT(load(small_options()), HasSubstr("expected the moments of step 4, found those of 3"));
}

TEST_F(SavedState, a_damaged_file_is_an_error_that_names_it) {
  rewrite("\"learning_rate\": 0.003", "\"learning_rate\": \"fast\"");
  EXPECT_THAT(load(small_options()),
              HasSubstr("training_state.json options: expected a number for \"learning_rate\""));
  rewrite("\"position\"", "\"positron\"");
  EXPECT_THROW(read_training_state_summary(folder_.path()), FormatError);
  rewrite("prenorm-training-state", "something-else");
  EXPECT_THROW(read_training_state_summary(folder_.path()), FormatError);
  std::ofstream(folder_.path() / "training_state.json") << "{";
  EXPECT_THROW(read_training_state_summary(folder_.path()), FormatError);
  std::filesystem::remove(folder_.path() / "training_state.json");
  EXPECT_FALSE(has_training_state(folder_.path()));
  EXPECT_THROW(read_training_state_summary(folder_.path()), IoError);
}

TEST_F(SavedState, a_byte_that_changed_is_found_in_either_file) {
  EXPECT_NO_THROW(check_training_state(folder_.path()));
  for (const char* name : {"training_state.json", "training_state.safetensors"}) {
    const auto path = folder_.path() / name;
    const std::string whole = read_file(path);
    for (std::size_t at = 0; at < whole.size(); at += 7) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 4);
      std::ofstream(path, std::ios::binary) << bytes;
      try {
        check_training_state(folder_.path());
        ADD_FAILURE() << name << " byte " << at;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(name)) << at;
      }
    }
    std::ofstream(path, std::ios::binary) << whole;
  }
}

TEST_F(SavedState, a_state_without_checksums_is_read_and_its_new_fields_take_their_defaults) {
  rewrite("\"version\": 3", "\"version\": 1");
  for (const char* key :
       {"\"patience\": 0,", "\"keep\": 2,", "\"dtype\": \"f32\",", "\"loss_was_high\": false"}) {
    const std::string entry = key;
    const bool last = !entry.ends_with(",");  // of its object: the comma before it goes too
    rewrite(last ? ",\n    " + entry : entry, "");
  }
  EXPECT_EQ(load(small_options()), "");
  rewrite("\"version\": 1", "\"version\": 3");
  EXPECT_THAT(load(small_options()), HasSubstr("expected a key \"dtype\""));
}

}  // namespace
}  // namespace prenorm
