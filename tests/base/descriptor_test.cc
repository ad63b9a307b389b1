#include "prenorm/base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>

#include "prenorm/base/error.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(Descriptor, closes_itself_and_only_once) {
  const TemporaryFolder folder("descriptor");
  int number = -1;
  {
    Descriptor first = open_descriptor(folder.path() / "file", O_WRONLY | O_CREAT, 0666);
    ASSERT_TRUE(first);
    number = first.get();
    EXPECT_NE(fcntl(number, F_GETFD) & FD_CLOEXEC, 0);
    Descriptor second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_EQ(second.get(), number);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Descriptor, closing_leaves_none) {
  const TemporaryFolder folder("descriptor");
  Descriptor fd = open_descriptor(folder.path(), O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(fd);
  const int number = fd.get();
  EXPECT_TRUE(fd.close());
  EXPECT_FALSE(fd);
  EXPECT_FALSE(is_open(number));
}

TEST(Descriptor, what_cannot_be_opened_is_none_and_the_reason_is_told) {
  const TemporaryFolder folder("descriptor");
  const Descriptor fd = open_descriptor(folder.path() / "nothing", O_RDONLY);
  const int error = errno;
  EXPECT_FALSE(fd);
  EXPECT_EQ(error, ENOENT);
  try {
    throw_system_error("a/b", "a file", error);
  } catch (const IoError& told) {
    EXPECT_EQ(std::string(told.what()), "a/b: expected a file, found No such file or directory");
  }
}

}  // namespace
}  // namespace prenorm
