#include "prenorm/cli/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "prenorm/base/error.h"

namespace prenorm::cli {
namespace {

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Pipe() {
    close_reader();
    close(ends_[1]);
  }
  int writer() const { return ends_[1]; }
  void close_reader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  std::string read_some() const {
    std::array<char, 4096> bytes;
    const ssize_t count = read(ends_[0], bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }

 private:
  std::array<int, 2> ends_{};
};

// What came out of a terminal. The kernel hands it over in pieces, when it gets to it: reads until
// `enough` bytes have come or nothing does for ten seconds, and what little follows at once.
std::string read_terminal(int terminal, std::size_t enough) {
  std::string text;
  while (true) {
    pollfd ready{.fd = terminal, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, text.size() < enough ? 10'000 : 50) <= 0) return text;
    std::array<char, 4096> bytes;
    const ssize_t count = read(terminal, bytes.data(), bytes.size());
    if (count <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

TEST(Output, text_is_handed_on_when_it_is_flushed) {
  const Pipe pipe;
  Output out(pipe.writer(), "pipe", Output::OnFailure::kThrow);
  out.write("one ");
  out.print("{}\n", 2);
  out.flush();
  EXPECT_EQ(pipe.read_some(), "one 2\n");
  EXPECT_FALSE(out.is_terminal());
}

TEST(Output, a_reader_that_has_gone_is_no_error_of_the_library) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.close_reader();
  Output out(pipe.writer(), "pipe", Output::OnFailure::kThrow);
  out.write("text");
  EXPECT_THROW(out.flush(), OutputClosed);
  out.flush();  // what could not be written is not tried again
  Output log(pipe.writer(), "pipe", Output::OnFailure::kIgnore);
  log.write("text");
  EXPECT_NO_THROW(log.flush());
}

TEST(Output, a_full_disk_is_an_error_that_names_the_stream) {
  const int full = open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "no /dev/full here";
  Output out(full, "results", Output::OnFailure::kThrow);
  out.write("text");
  try {
    out.flush();
    ADD_FAILURE() << "expected an IoError";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("results: expected room to write, found: "));
  }
  close(full);
}

TEST(StatusLine, off_a_terminal_every_line_is_a_line) {
  const Pipe pipe;
  Output log(pipe.writer(), "pipe", Output::OnFailure::kIgnore);
  {
    StatusLine status(log);
    status.show("iter 1");
    status.show("iter 2");
    status.keep();
  }
  EXPECT_EQ(pipe.read_some(), "iter 1\niter 2\n");
}

TEST(StatusLine, on_a_terminal_a_line_rewrites_itself_until_it_is_kept) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  const bool ready = terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0;
  const int screen = ready ? open(ptsname(terminal), O_RDWR | O_NOCTTY) : -1;
  if (screen < 0) GTEST_SKIP() << "this system opens no pseudo-terminal (/dev/pts is not mounted?)";
  {
    Output log(screen, "terminal", Output::OnFailure::kIgnore);
    ASSERT_TRUE(log.is_terminal());
    StatusLine status(log);
    status.show("iter 1");
    status.show("iter 2");
    status.keep();
    status.show("iter 3");
  }
  const std::string expected = "\riter 1\033[K\riter 2\033[K\r\n\riter 3\033[K\r\n";
  EXPECT_EQ(read_terminal(terminal, expected.size()), expected);
  close(screen);
  close(terminal);
}

}  // namespace
}  // namespace prenorm::cli
