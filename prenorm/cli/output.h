// The program's two streams: results on standard output, progress and notices on standard error.
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace prenorm::cli {

// Thrown when whoever read our output has gone ("prenorm … | head"): the program ends quietly.
struct OutputClosed {};

class Output {
 public:
  enum class OnFailure { kThrow, kIgnore };

  // `name` is what messages call it.
  Output(int descriptor, std::string name, OnFailure on_failure);

  // Buffers; hands on at flush(), at the end of a line on a terminal, and when the buffer is full.
  // Throws OutputClosed, and IoError where the system refuses (a full disk).
  void write(std::string_view text);
  void flush();
  bool is_terminal() const { return terminal_; }
  // The terminal's width; 0 where it is unknown or there is none.
  std::size_t columns() const;

  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  int descriptor_;
  std::string name_;
  OnFailure on_failure_;
  bool terminal_;
  std::string buffer_;
};

// A line on standard error that rewrites itself on a terminal and is a plain line elsewhere.
class StatusLine {
 public:
  explicit StatusLine(Output& log) : log_(log) {}
  ~StatusLine() { finish(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(std::string_view line);
  // Shows line() if nothing was shown for so long, or since this was made.
  template <typename Line>
  void show_after(std::chrono::steady_clock::duration pause, const Line& line) {
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_ < pause) return;
    shown_ = now;
    show(line());
  }
  // Keeps the line that is shown and goes on below it.
  void keep();
  void finish() { keep(); }

 private:
  Output& log_;
  bool open_ = false;
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();
};

}  // namespace prenorm::cli
