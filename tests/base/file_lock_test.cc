#include "prenorm/base/file_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

class FileLockTest : public testing::Test {
 protected:
  const TemporaryFolder folder_{"file_lock"};
  const std::filesystem::path path_ = folder_.path() / ".lock";
};

TEST_F(FileLockTest, a_second_holder_is_refused_and_told_who_the_first_is) {
  const FileLock lock(path_);
  EXPECT_TRUE(lock.held());
  try {
    const FileLock second(path_);
    ADD_FAILURE() << "no error";
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              path_.string() + ": expected no other process at work here, found one (process " +
                  std::to_string(getpid()) + ")");
  }
}

// A run folder from a stranger must not make us write into the user's other files.
TEST_F(FileLockTest, a_link_or_a_pipe_in_its_place_is_refused_and_nothing_written) {
  const std::filesystem::path victim = folder_.path() / "victim";
  write_file_durably(victim, "mine");
  std::filesystem::create_symlink("victim", path_);
  EXPECT_THROW(FileLock{path_}, IoError);
  EXPECT_EQ(read_file(victim), "mine");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(FileLock{path_}, IoError);
}

TEST_F(FileLockTest, it_ends_with_its_holder_and_moves_with_it) {
  {
    FileLock lock(path_);
    FileLock other;
    EXPECT_FALSE(other.held());
    other = std::move(lock);
    EXPECT_TRUE(other.held());
    EXPECT_THROW(FileLock{path_}, IoError);
  }
  EXPECT_TRUE(FileLock(path_).held());
}

TEST_F(FileLockTest, a_holder_that_is_killed_leaves_a_file_that_locks_nothing) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FileLock lock(path_);
    static_cast<void>(write(ready[1], "x", 1) == 1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THROW(FileLock{path_}, IoError);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(FileLock(path_).held());
}

TEST_F(FileLockTest, a_file_that_cannot_be_made_is_an_error_that_names_it) {
  EXPECT_THROW(FileLock(folder_.path() / "none" / ".lock"), IoError);
}

}  // namespace
}  // namespace prenorm
