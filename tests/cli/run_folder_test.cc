#include "prenorm/cli/run_folder.h"

#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/temporary_folder.h"

namespace prenorm::cli {
namespace {

class RunFolderTest : public testing::Test {
 protected:
  void put(const std::string& name) const {
    ensure_directory(path_);
    write_file_durably(path_ / name, "{}");
  }

  const TemporaryFolder temporary_{"run-folder"};
  const std::filesystem::path path_ = temporary_.path() / "run";  // not there yet
};

TEST_F(RunFolderTest, a_new_or_foreign_folder_is_made_ready) {
  RunFolder(path_ / "a" / "b").prepare(false, false);
  EXPECT_TRUE(std::filesystem::is_directory(path_ / "a" / "b"));
  put("notes.txt");
  EXPECT_NO_THROW(RunFolder(path_).check(false, false));
}

TEST_F(RunFolderTest, any_file_of_a_run_keeps_another_run_out) {
  for (const char* name : {"config.json", "model.safetensors", "training_state.json"}) {
    std::filesystem::remove_all(path_);
    put(name);
    EXPECT_THROW(RunFolder(path_).check(false, false), ConfigError) << name;
    if (name != std::string("model.safetensors")) {  // weights alone are nothing to go on with
      EXPECT_NO_THROW(RunFolder(path_).check(true, false)) << name;
    }
    EXPECT_NO_THROW(RunFolder(path_).check(false, true)) << name;
  }
}

TEST_F(RunFolderTest, replacing_leaves_no_state_to_go_on_with_and_keeps_the_model_for_now) {
  put("training_state.json");
  put("model.safetensors");
  RunFolder(path_).prepare(false, true);
  EXPECT_FALSE(std::filesystem::exists(path_ / "training_state.json"));
  EXPECT_TRUE(std::filesystem::exists(path_ / "model.safetensors"));
}

TEST_F(RunFolderTest, weights_without_a_state_are_not_resumed) {
  put("model.safetensors");
  try {
    RunFolder(path_).check(true, false);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("training_state.json"), std::string::npos);
  }
  put("training_state.json");
  EXPECT_NO_THROW(RunFolder(path_).check(true, false));
}

TEST_F(RunFolderTest, opening_removes_what_a_killed_training_left) {
  put("model.safetensors");
  ensure_directory(path_ / ".saving");
  write_file_durably(path_ / ".saving" / "model.safetensors", "half");
  RunFolder folder(path_);
  folder.open();
  EXPECT_FALSE(std::filesystem::exists(path_ / ".saving"));
  EXPECT_EQ(read_file(path_ / "model.safetensors"), "{}");
}

TEST_F(RunFolderTest, opening_finishes_a_save_of_an_earlier_version) {
  put("model.safetensors");
  ensure_directory(path_ / ".saved");
  write_file_durably(path_ / ".saved" / "model.safetensors", "new");
  write_file_durably(path_ / ".saved" / "training_state.json", "new");
  RunFolder(path_).open();
  EXPECT_EQ(read_file(path_ / "model.safetensors"), "new");
  EXPECT_EQ(read_file(path_ / "training_state.json"), "new");
  EXPECT_FALSE(std::filesystem::exists(path_ / ".saved"));
}

TEST_F(RunFolderTest, a_folder_is_open_once) {
  RunFolder("").open();
  RunFolder(path_ / "none").open();
  put("notes.txt");
  {
    RunFolder folder(path_);
    folder.open();
    EXPECT_THROW(RunFolder(path_).open(), IoError);
    EXPECT_THROW(RunFolder(path_).prepare(false, false), IoError);
  }
  EXPECT_NO_THROW(RunFolder(path_).open());
}

TEST_F(RunFolderTest, a_run_that_came_while_the_folder_was_missing_is_not_written_over) {
  RunFolder folder(path_);
  folder.open();
  folder.check(false, false);
  put("model.safetensors");
  EXPECT_THROW(folder.prepare(false, false), ConfigError);
}

TEST_F(RunFolderTest, resuming_and_replacing_exclude_each_other) {
  EXPECT_THROW(RunFolder(path_).check(true, true), ConfigError);
  EXPECT_THROW(RunFolder("").check(false, false), ConfigError);
}

}  // namespace
}  // namespace prenorm::cli
