#include "prenorm/base/folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

class FolderTest : public testing::Test {
 protected:
  // A folder with one file of that text.
  fs::path make(const std::string& name, const std::string& text) const {
    ensure_directory(path_ / name);
    write_file_durably(path_ / name / "file", text);
    return path_ / name;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      found.push_back(entry.path().filename().string());
    }
    std::ranges::sort(found);
    return found;
  }
  using Names = std::vector<std::string>;

  const TemporaryFolder temporary_{"folder"};
  const fs::path path_ = temporary_.path();
};

TEST_F(FolderTest, a_folder_takes_a_free_name_and_that_of_another_which_goes) {
  replace_folder_durably(make(".saving", "one"), path_ / "checkpoint");
  EXPECT_EQ(read_file(path_ / "checkpoint" / "file"), "one");
  replace_folder_durably(make(".saving", "two"), path_ / "checkpoint");
  EXPECT_EQ(read_file(path_ / "checkpoint" / "file"), "two");
  EXPECT_EQ(names(), Names{"checkpoint"});
}

TEST_F(FolderTest, a_link_is_the_same_file_and_replaces_what_stood_there) {
  make("a", "new");
  write_file_durably(path_ / "file", "old");
  link_file(path_ / "a" / "file", path_ / "file");
  EXPECT_TRUE(fs::equivalent(path_ / "a" / "file", path_ / "file"));
  // Linked already: renaming one name of a file over another would leave both.
  link_file(path_ / "a" / "file", path_ / "file");
  EXPECT_EQ(read_file(path_ / "file"), "new");
  EXPECT_EQ(names(), (Names{"a", "file"}));
}

TEST_F(FolderTest, a_symbolic_link_is_replaced_and_not_followed) {
  make("a", "new");
  fs::create_symlink(path_ / "a" / "file", path_ / "file");
  link_file(path_ / "a" / "file", path_ / "file");
  EXPECT_FALSE(fs::is_symlink(path_ / "file"));
  EXPECT_EQ(read_file(path_ / "file"), "new");
}

TEST_F(FolderTest, between_file_systems_a_copy_stands_in_for_the_link) {
  const fs::path memory = "/dev/shm";
  std::error_code error;
  if (!fs::is_directory(memory, error)) GTEST_SKIP() << "no /dev/shm";
  const fs::path source = memory / ("prenorm-folder-test-" + std::to_string(getpid()));
  write_file_durably(source, "copied");
  link_file(source, path_ / "file");
  EXPECT_EQ(read_file(path_ / "file"), "copied");
  fs::remove(source);
  EXPECT_EQ(names(), Names{"file"});
}

TEST_F(FolderTest, removing_takes_all_that_is_inside) {
  make("a", "x");
  make("a/b", "x");
  remove_folder(path_ / "a");
  EXPECT_EQ(names(), Names{});
}

TEST_F(FolderTest, leftovers_of_dead_processes_go_and_those_of_living_ones_stay) {
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const auto temporary = [](pid_t process) {
    return ".model.safetensors.tmp-" + std::to_string(process) + "-0";
  };
  for (const std::string& name :
       {temporary(dead), temporary(getpid()), temporary(getppid()), std::string(".x.tmp-"),
        std::string(".x.tmp-1x-0"), std::string("x.tmp-" + std::to_string(dead) + "-0")}) {
    write_file_durably(path_ / name, "x");
  }
  make(".saving", "half");
  make(".saving-best", "half");
  make(".removing-checkpoint-1", "half");
  make("checkpoint-2", "kept");
  remove_leftovers(path_);
  Names expected = {temporary(getppid()), ".x.tmp-", ".x.tmp-1x-0",
                    "x.tmp-" + std::to_string(dead) + "-0", "checkpoint-2"};
  std::ranges::sort(expected);
  EXPECT_EQ(names(), expected);
}

TEST_F(FolderTest, a_folder_that_was_being_replaced_comes_back_if_nothing_took_its_place) {
  make(".replaced-checkpoint-1", "old");
  remove_leftovers(path_);
  EXPECT_EQ(read_file(path_ / "checkpoint-1" / "file"), "old");
  make(".replaced-checkpoint-1", "older");
  remove_leftovers(path_);
  EXPECT_EQ(read_file(path_ / "checkpoint-1" / "file"), "old");
  EXPECT_EQ(names(), Names{"checkpoint-1"});
}

TEST(MoveFiles, replaces_files_of_the_same_names_and_removes_the_folder) {
  const TemporaryFolder temporary("move");
  const std::filesystem::path to = temporary.path() / "to", from = temporary.path() / "from";
  for (const auto& folder : {to, from}) ensure_directory(folder);
  write_file_durably(to / "a", "old");
  write_file_durably(to / "kept", "kept");
  write_file_durably(from / "a", "new");
  write_file_durably(from / "b", "new");
  replace_folder_durably(from, temporary.path() / "renamed");
  EXPECT_FALSE(std::filesystem::exists(from));
  move_files_durably(temporary.path() / "renamed", to);
  EXPECT_EQ(read_file(to / "a"), "new");
  EXPECT_EQ(read_file(to / "b"), "new");
  EXPECT_EQ(read_file(to / "kept"), "kept");
  EXPECT_FALSE(std::filesystem::exists(temporary.path() / "renamed"));
}

TEST_F(FolderTest, a_missing_folder_is_an_error_that_names_it) {
  const fs::path none = path_ / "none";
  for (const auto& call :
       {+[](const fs::path& p) { move_files_durably(p, "."); },
        +[](const fs::path& p) { replace_folder_durably(p, "x"); },
        +[](const fs::path& p) { remove_folder(p); },
        +[](const fs::path& p) { remove_leftovers(p); }, +[](const fs::path& p) { sync_folder(p); },
        +[](const fs::path& p) { link_file(p / "file", p / "file"); }}) {
    try {
      call(none);
      ADD_FAILURE() << "no error";
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(none.string()), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace prenorm
