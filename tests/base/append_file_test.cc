#include "prenorm/base/append_file.h"

#include <gtest/gtest.h>

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
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  std::filesystem::create_symlink("/dev/full", path_);
  try {
    AppendFile file(path_, 0);
    file.append("x");
    ADD_FAILURE() << "no error";
  } catch (const IoError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(path_.string() + ": expected "))
        << error.what();
  }
}

}  // namespace
}  // namespace prenorm
