// Runs the built program as a user does: arguments, environment, standard input; and what came of
// it.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace prenorm::cli {

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void spill(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

struct Ran {
  int code = -1;  // exit code, or -signal
  std::string out, err;
};

// An empty folder of this test's own, removed at its end.
class Scratch {
 public:
  Scratch() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("prenorm-") + info->test_suite_name() + "-" + info->name() + "-" +
             std::to_string(getpid()));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A program that runs. Its standard streams are files in the scratch folder.
class Running {
 public:
  Running(const Scratch& scratch, const std::vector<std::string>& arguments,
          const std::string& input = "", const std::vector<std::string>& environment = {})
      : out_(scratch / "stdout"), err_(scratch / "stderr") {
    spill(scratch / "stdin", input);
    spill(out_, "");
    spill(err_, "");
    std::vector<std::string> words = {PRENORM_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    // The child: its streams, its folder, its environment without options of the caller's.
    for (char** entry = environ; *entry != nullptr;) {
      const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
      if (name.starts_with("PRENORM_")) {
        unsetenv(name.c_str());
      } else {
        ++entry;
      }
    }
    for (const std::string& entry : environment) {
      const std::size_t equals = entry.find('=');
      setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    const bool redirected = std::freopen((scratch / "stdin").c_str(), "r", stdin) != nullptr &&
                            std::freopen(out_.c_str(), "w", stdout) != nullptr &&
                            std::freopen(err_.c_str(), "w", stderr) != nullptr &&
                            chdir(scratch.path().c_str()) == 0;
    if (redirected) execv(PRENORM_PROGRAM, argv.data());
    _exit(127);
  }

  void send(int signal) const { kill(pid_, signal); }
  std::string err_so_far() const { return slurp(err_); }

  // Waits up to `seconds` for a text on standard error.
  bool wait_for(const std::string& text, int seconds = 60) const {
    for (int i = 0; i < seconds * 100; ++i) {
      if (err_so_far().find(text) != std::string::npos) return true;
      usleep(10'000);
    }
    return false;
  }

  Ran finish() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), slurp(out_), slurp(err_)};
  }

 private:
  std::filesystem::path out_, err_;
  pid_t pid_;
};

inline Ran run_program(const Scratch& scratch, const std::vector<std::string>& arguments,
                       const std::string& input = "",
                       const std::vector<std::string>& environment = {}) {
  return Running(scratch, arguments, input, environment).finish();
}

// An error is one line of at most 300 characters on standard error, and nothing on standard output.
inline void expect_error(const Ran& ran, int code, const std::string& beginning) {
  EXPECT_EQ(ran.code, code) << ran.err;
  EXPECT_TRUE(ran.err.starts_with("prenorm: " + beginning)) << ran.err;
  EXPECT_EQ(ran.err.find('\n') + 1, ran.err.size()) << ran.err;
  EXPECT_LE(ran.err.size(), 301u);
  EXPECT_NE(ran.err.find("expected"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("found"), std::string::npos) << ran.err;
  EXPECT_EQ(ran.out, "");
}

// A text with something to learn, long enough for a small context.
inline std::string small_text() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the cat sees the dog " + std::to_string(i % 10) + ".\n";
  return text;
}

// Flags of a model that trains in a moment.
inline std::vector<std::string> small_run(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {
      "train",          "text.txt", "--n-layer",       "1",  "--n-head",     "2",
      "--n-embd",       "16",       "--block-size",    "16", "--batch-size", "4",
      "--max-iters",    "20",       "--eval-interval", "10", "--eval-iters", "2",
      "--log-interval", "5",        "--threads",       "1"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

}  // namespace prenorm::cli
