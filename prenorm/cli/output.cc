#include "prenorm/cli/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "prenorm/base/error.h"
#include "prenorm/cli/message.h"

namespace prenorm::cli {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;

}  // namespace

Output::Output(int descriptor, std::string name, OnFailure on_failure)
    : descriptor_(descriptor),
      name_(std::move(name)),
      on_failure_(on_failure),
      terminal_(isatty(descriptor) == 1) {}

void Output::write(std::string_view text) {
  buffer_ += text;
  const bool line_ended = !text.empty() && text.back() == '\n';
  if (buffer_.size() >= kBufferBytes || (terminal_ && line_ended)) flush();
}

void Output::flush() {
  std::string pending;
  pending.swap(buffer_);  // whatever happens, it is not written twice
  std::string_view rest = pending;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      // A terminal that was closed sends SIGHUP, which ends what is to end.
      const bool hung_up = terminal_ && errno == EIO;
      if (hung_up || on_failure_ == OnFailure::kIgnore) return;
      if (errno == EPIPE) throw OutputClosed();
      throw IoError(name_ + ": expected room to write, found: " + std::strerror(errno));
    }
  }
}

std::size_t Output::columns() const {
  winsize size{};
  return ioctl(descriptor_, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void StatusLine::show(std::string_view line) {
  if (!log_.is_terminal()) {
    log_.write(std::string(line) + "\n");
    log_.flush();
    return;
  }
  // A line that wraps cannot be rewritten: cut it to the terminal.
  const std::size_t columns = log_.columns();
  const std::size_t shown = columns > 1 ? columns - 1 : line.size();
  log_.write("\r" + std::string(prefix_of_characters(line, shown)) + "\033[K");
  log_.flush();
  open_ = true;
}

void StatusLine::keep() {
  if (!open_) return;
  log_.write("\n");
  log_.flush();
  open_ = false;
}

}  // namespace prenorm::cli
