#include "prenorm/base/append_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <string>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

class AppendFileTest : public testing::Test {
 protected:
  const TemporaryFolder folder_{"append"};
  const std::filesystem::path path_ = folder_.path() / "lines";
};

TEST_F(AppendFileTest, what_was_appended_is_there_at_once_and_after_another_opening) {
  {
    AppendFile file(path_, 0);
    file.append("one\n");
    EXPECT_EQ(read_file(path_), "one\n");
    file.append("two\n");
  }
  AppendFile file(path_, 4);
  EXPECT_EQ(read_file(path_), "one\n");
  file.append("three\n");
  EXPECT_EQ(read_file(path_), "one\nthree\n");
}

TEST_F(AppendFileTest, a_full_disk_and_a_missing_folder_are_errors_that_name_the_file) {
  EXPECT_THROW(AppendFile(folder_.path() / "none" / "lines", 0), IoError);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  try {
    AppendFile file(path_, 0);
    file.append("12345");
    ADD_FAILURE() << "no error";
  } catch (const IoError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(path_.string() + ": expected "))
        << error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
}

// A run folder from a stranger must not make us shorten the user's other files.
TEST_F(AppendFileTest, a_link_or_a_pipe_in_its_place_is_refused_and_nothing_written) {
  const std::filesystem::path victim = folder_.path() / "victim";
  write_file_durably(victim, "mine");
  std::filesystem::create_symlink("victim", path_);
  EXPECT_THROW(AppendFile(path_, 0), IoError);
  EXPECT_EQ(read_file(victim), "mine");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(AppendFile(path_, 0), IoError);
}

}  // namespace
}  // namespace prenorm
