#include "prenorm/train/run_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/folder.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/train/state.h"
#include "tests/train/small_run.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunStates : public ::testing::Test {
 protected:
  // Trains to that step and saves.
  void save(Index iter, Index keep = 2) {
    while (run_.trainer->position().iter < iter) run_.trainer->step();
    save_state(path_, iter, [&](const fs::path& folder) {
      save_pretrained(run_.model, folder);
      save_training_state(folder, *run_.trainer);
    });
    publish_state(path_, iter);
    keep_newest(path_, iter, keep);
  }
  std::vector<std::string> folders() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.is_directory()) names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  void damage(const fs::path& name) const {
    std::string bytes = read_file(path_ / name);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(path_ / name, std::ios::binary) << bytes;  // in place: links share it
  }
  Index step_at_root() const { return read_training_state_summary(path_).iter; }

  const TemporaryFolder temporary_{"run_states"};
  const fs::path path_ = temporary_.path();
  testing_support::SmallRun run_;
};

TEST_F(RunStates, the_newest_few_are_kept_and_the_runs_files_are_those_of_the_newest) {
  EXPECT_FALSE(holds_states(path_));
  EXPECT_FALSE(choose_state(path_));
  EXPECT_FALSE(choose_state(path_ / "none"));
  for (const Index iter : {1, 2, 9, 10}) save(iter);
  EXPECT_THAT(folders(), ElementsAre("checkpoint-10", "checkpoint-9"));
  EXPECT_TRUE(
      fs::equivalent(path_ / "model.safetensors", path_ / "checkpoint-10" / "model.safetensors"));
  const auto chosen = choose_state(path_);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->folder, path_ / "checkpoint-10");
  EXPECT_EQ(chosen->iter, 10);
  EXPECT_THAT(chosen->damages, IsEmpty());
  save(11, 1);
  EXPECT_THAT(folders(), ElementsAre("checkpoint-11"));
}

TEST_F(RunStates, a_save_that_fails_leaves_all_as_it_was) {
  save(1);
  EXPECT_THROW(save_state(path_, 2,
                          [&](const fs::path& folder) {
                            write_file_durably(folder / "half", "x");
                            throw IoError("full");
                          }),
               IoError);
  EXPECT_THAT(folders(), ElementsAre("checkpoint-1"));
  EXPECT_EQ(step_at_root(), 1);
}

TEST_F(RunStates, a_state_of_the_same_step_is_replaced) {
  save(1);
  const auto before = fs::last_write_time(path_ / "checkpoint-1" / "config.json");
  save(1);
  EXPECT_THAT(folders(), ElementsAre("checkpoint-1"));
  EXPECT_GE(fs::last_write_time(path_ / "checkpoint-1" / "config.json"), before);
  EXPECT_TRUE(choose_state(path_)->damages.empty());
}

TEST_F(RunStates, damage_is_named_and_an_older_state_takes_over) {
  save(1);
  save(2);
  damage("checkpoint-2/training_state.safetensors");
  const auto chosen = choose_state(path_);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->folder, path_ / "checkpoint-1");
  ASSERT_EQ(chosen->damages.size(), 1u);
  EXPECT_THAT(chosen->damages[0], HasSubstr("checkpoint-2/training_state.safetensors: expected "));
  // The damaged files are the run's own, too.
  EXPECT_THAT(return_to(path_, *chosen).value_or("nothing"),
              HasSubstr("training_state.safetensors: expected "));
  EXPECT_EQ(step_at_root(), 1);
  EXPECT_THAT(folders(), ElementsAre("checkpoint-1", "checkpoint-2.damaged"));
  EXPECT_FALSE(return_to(path_, *choose_state(path_)));
  save(2);  // its name is free again
  EXPECT_EQ(choose_state(path_)->iter, 2);
}

TEST_F(RunStates, none_that_is_whole_is_an_error_and_no_new_start) {
  save(1);
  save(2);
  for (const char* name : {"checkpoint-1", "checkpoint-2"}) {
    damage(fs::path(name) / "model.safetensors");
  }
  try {
    choose_state(path_);
    ADD_FAILURE() << "no error";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected a state that is whole, found 2 that are not: "));
    EXPECT_THAT(error.what(), HasSubstr("checkpoint-2/model.safetensors"));
  }
}

TEST_F(RunStates, files_of_the_run_that_were_half_replaced_follow_the_newest_state) {
  save(1);
  fs::copy(path_ / "checkpoint-1" / "model.safetensors", path_ / "old");
  save(2);
  fs::rename(path_ / "old", path_ / "model.safetensors");  // killed before it was replaced
  const auto chosen = choose_state(path_);
  EXPECT_EQ(chosen->iter, 2);
  EXPECT_THAT(return_to(path_, *chosen).value_or("nothing"),
              HasSubstr("model.safetensors: expected "));
  EXPECT_NO_THROW(check_training_state(path_));
}

TEST_F(RunStates, files_of_the_run_that_were_not_replaced_at_all_are_told_by_their_step) {
  save(1);
  fs::copy(path_ / "checkpoint-1", path_ / "old");
  save(2);
  for (const fs::path& file : list_folder(path_ / "old")) {
    fs::rename(file, path_ / file.filename());
  }
  EXPECT_EQ(return_to(path_, *choose_state(path_)).value_or("nothing"),
            "they were those of step 1");
  EXPECT_EQ(step_at_root(), 2);
}

TEST_F(RunStates, a_run_without_checkpoints_goes_on_from_its_own_files) {
  save(3);
  fs::remove_all(path_ / "checkpoint-3");
  const auto chosen = choose_state(path_);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->folder, path_);
  EXPECT_EQ(chosen->iter, 3);
  EXPECT_FALSE(return_to(path_, *chosen));
}

TEST_F(RunStates, a_checkpoint_under_the_name_of_another_step_is_damaged) {
  save(1);
  save(2);
  fs::rename(path_ / "checkpoint-2", path_ / "checkpoint-3");
  const auto chosen = choose_state(path_);
  EXPECT_THAT(chosen->damages,
              ElementsAre(HasSubstr("expected the state of step 3, found that of step 2")));
}

TEST_F(RunStates, best_outlives_its_checkpoint_and_is_the_last_resort) {
  save(1);
  mark_as_best(path_, 1);
  for (const Index iter : {2, 3, 4}) save(iter);
  EXPECT_THAT(folders(), ElementsAre("best", "checkpoint-3", "checkpoint-4"));
  EXPECT_EQ(read_training_state_summary(path_ / "best").iter, 1);
  for (const char* name : {"checkpoint-3", "checkpoint-4"}) {
    damage(fs::path(name) / "model.safetensors");
  }
  EXPECT_EQ(choose_state(path_)->folder, path_ / "best");
  mark_as_best(path_, 4);
  EXPECT_EQ(read_training_state_summary(path_ / "best").iter, 4);
}

TEST_F(RunStates, removing_the_states_leaves_the_models_files) {
  save(1);
  mark_as_best(path_, 1);
  remove_states(path_);
  EXPECT_THAT(folders(), IsEmpty());
  EXPECT_FALSE(holds_states(path_));
  EXPECT_TRUE(fs::exists(path_ / "model.safetensors"));
}

TEST_F(RunStates, names_that_only_look_like_checkpoints_are_left_alone) {
  for (const char* name : {"checkpoint-", "checkpoint-01", "checkpoint--1", "checkpoint-1x"}) {
    ensure_directory(path_ / name);
  }
  EXPECT_FALSE(holds_states(path_));
  save(1, 1);
  save(2, 1);
  EXPECT_EQ(folders().size(), 5u);
}

}  // namespace
}  // namespace prenorm
