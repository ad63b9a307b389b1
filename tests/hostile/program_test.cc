// Every malformed file through the program as a user runs it, with 1 GiB of address space: exit
// code 3, one line of at most 300 characters on standard error that names the file, in less than a
// second and 256 MiB.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "tests/hostile/hostile_file.h"
#include "tests/hostile/limits.h"
#include "tests/temporary_folder.h"

namespace prenorm::hostile {
namespace {

namespace fs = std::filesystem;

struct Ran {
  int code = -1;  // exit code, or -signal
  std::string err;
  double seconds = 0.0;  // of the processor: the machine may be busy
  std::size_t peak_bytes = 0;
};

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

[[noreturn]] void become_program(std::vector<std::string> words, const fs::path& err) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (kMeasured) {
    const rlimit limit{kAddressSpace, kAddressSpace};
    setrlimit(RLIMIT_AS, &limit);
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  alarm(30);  // a hang ends here, as a signal
  setenv("PRENORM_THREADS", "1", 1);
  const int null = open("/dev/null", O_RDWR);
  const int log = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(log, 2) == 2) execv(argv[0], argv.data());
  _exit(127);
}

Ran run(std::vector<std::string> arguments, const fs::path& err) {
  arguments.insert(arguments.begin(), PRENORM_PROGRAM);
  const pid_t pid = fork();
  if (pid == 0) become_program(std::move(arguments), err);
  int status = 0;
  rusage usage{};
  wait4(pid, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), slurp(err),
          seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
          static_cast<std::size_t>(usage.ru_maxrss) * 1024};
}

// What a user would do with such a file; nothing where no verb reads it alone.
std::vector<std::string> command_of(const HostileFile& file, const fs::path& folder) {
  const std::string path = (file.opened.empty() ? folder : folder / file.opened).string();
  switch (file.opener) {
    case Opener::kTensors:
      return {"inspect", path};
    case Opener::kModel:
      return {"generate", "-m", path, "-p", "a", "-n", "1"};
    case Opener::kIndex:  // beside a config, as a model's weights
      return {"diff", folder.string(), folder.string()};
    case Opener::kSource:
      return {"convert", path, "--n-head", "1", "--out-dir", (folder / "out").string()};
    case Opener::kTokenizer:
      return {"tokenize", "-m", path};
    case Opener::kEncoder:
      return {"embed", "-m", path};
    case Opener::kToml:
      return {"generate", "--config", path, "-m", "x"};
    case Opener::kState:
    case Opener::kMetrics:
      break;
  }
  return {};
}

void expect_clean_refusal(const Ran& ran, const std::string& what, const std::string& culprit) {
  EXPECT_EQ(ran.code, 3) << what << ": " << ran.err;
  const std::string line = ran.err.substr(0, ran.err.find('\n'));
  EXPECT_TRUE(line.starts_with("prenorm: ")) << what << ": " << ran.err;
  EXPECT_LE(line.size(), 300u) << what;
  EXPECT_NE(line.find(culprit), std::string::npos) << what << "\n  " << culprit << "\n  " << line;
  // Lists of tensors may go on in further lines, which are indented.
  for (std::size_t at = line.size() + 1; at < ran.err.size(); at = ran.err.find('\n', at) + 1) {
    EXPECT_EQ(ran.err.substr(at, 2), "  ") << what << ": " << ran.err;
  }
  if (!kMeasured) return;
  EXPECT_LT(ran.seconds, kMostSeconds) << what;
  EXPECT_LT(ran.peak_bytes, kMostBytes) << what;
}

TEST(HostileProgram, refuses_every_malformed_file_with_one_line_in_time_and_memory) {
  int refused = 0;
  Ran slowest, largest;
  std::string slow, large;
  const TemporaryFolder elsewhere("program");
  for (const HostileFile& file : all_hostile_files()) {
    const TemporaryFolder folder("hostile");
    write_hostile(file, folder.path());
    const std::vector<std::string> command = command_of(file, folder.path());
    if (command.empty()) continue;
    const Ran ran = run(command, elsewhere.path() / "stderr");
    expect_clean_refusal(ran, file.name, file.culprit);
    if (ran.seconds > slowest.seconds) slowest = ran, slow = file.name;
    if (ran.peak_bytes > largest.peak_bytes) largest = ran, large = file.name;
    ++refused;
  }
  EXPECT_GE(refused, 150);
  std::cout << refused << " files; longest " << slowest.seconds << " s (" << slow << "), largest "
            << (largest.peak_bytes >> 20) << " MiB (" << large << ")\n";
}

// Each verb that opens what a stranger may have sent, with one damaged folder and one damaged file.
TEST(HostileProgram, every_verb_refuses_what_it_cannot_read) {
  const TemporaryFolder scratch("verbs");
  const fs::path folder = scratch.path() / "model", file = scratch.path() / "x.safetensors";
  HostileFile damaged;
  damaged.files = valid_model();
  damaged.files["config.json"] = gpt_config_with("n_embd", "1000000");
  write_hostile(damaged, folder);
  std::ofstream(file) << safetensors(
      "{\"input\":{\"dtype\":\"F32\",\"shape\":[4294967296,"
      "4294967296],\"data_offsets\":[0,0]}}");
  std::ofstream(scratch.path() / "text.txt") << "some text";
  std::ofstream(scratch.path() / "sums.txt") << "12+7=19\n";
  const std::string sums = (scratch.path() / "sums.txt").string();
  const std::string text = (scratch.path() / "text.txt").string();
  const std::string m = folder.string(), x = file.string(), out = (scratch.path() / "o").string();
  const std::string weights = "model.safetensors", tensors = "x.safetensors";
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"inspect", m}, weights},
      {{"inspect", x}, tensors},
      {{"convert", m, "--out-dir", out}, weights},
      {{"convert", x, "--n-head", "1", "--out-dir", out}, tensors},
      {{"diff", m, x}, tensors},
      {{"diff", x, m}, tensors},
      {{"apply", "gpt", "--params", m, "--input", x, "--output", out}, ""},
      {{"apply", "layer-norm", "--params", x, "--input", x, "--output", out}, tensors},
      {{"diagnose", "-m", m, "--input", x, "--theirs", x}, ""},
      {{"generate", "-m", m, "-p", "a"}, weights},
      {{"eval", "-m", m, text}, weights},
      {{"embed", "-m", m, text}, ""},
      {{"check", m}, weights},
      {{"growth", "-m", m, text}, weights},
      {{"addition", "-m", m, "--data", sums}, weights},
  };
  for (const auto& [command, culprit] : commands) {
    const Ran ran = run(command, scratch.path() / "stderr");
    expect_clean_refusal(ran, testing::PrintToString(command), culprit);
    EXPECT_FALSE(fs::exists(out)) << testing::PrintToString(command);
  }
}

}  // namespace
}  // namespace prenorm::hostile
