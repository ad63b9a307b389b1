#include "tests/cases/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "prenorm/base/utf8.h"

namespace prenorm::cases {
namespace {

constexpr std::size_t kLongestError = 300;

// Flags of `train` that a case may give.
constexpr std::array kTrainFlags = {"n_layer",      "n_head",        "n_embd",
                                    "n_inner",      "block_size",    "norm",
                                    "activation",   "eps",           "dropout",
                                    "embd_pdrop",   "attn_pdrop",    "resid_pdrop",
                                    "max_iters",    "batch_size",    "gradient_accumulation_steps",
                                    "seed",         "eval_interval", "eval_iters",
                                    "log_interval", "save_interval", "learning_rate",
                                    "min_lr",       "warmup_iters",  "lr_decay_iters",
                                    "lr_schedule",  "weight_decay",  "beta1",
                                    "beta2",        "grad_clip",     "val_fraction",
                                    "tokenizer"};

void redirect(const std::filesystem::path& file, int to) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd >= 0) dup2(fd, to);
}

std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

void write_plainly(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

ProgramFolder::ProgramFolder(const std::filesystem::path& program)
    : program_(program), folder_("case") {
  if (!std::filesystem::exists(program)) {
    throw BadCase("expected the program at " + program.string() + ", found none");
  }
}

void ProgramFolder::write(const std::string& name, const std::string& bytes) const {
  write_plainly(*this / name, bytes);
}

std::string ProgramFolder::read(const std::string& name) const { return slurp(*this / name); }

pid_t ProgramFolder::start(const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {program_.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::filesystem::path out = *this / "stdout", err = *this / "stderr";
  const pid_t child = fork();
  if (child != 0) return child;
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  for (char** entry = environ; *entry != nullptr;) {  // no options of the caller's
    const std::string name(*entry, std::string(*entry).find('='));
    if (name.starts_with("PRENORM_")) {
      unsetenv(name.c_str());
    } else {
      ++entry;
    }
  }
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (chdir(folder_.path().c_str()) == 0) execv(argv[0], argv.data());
  _exit(127);
}

Ran ProgramFolder::wait(pid_t child) const {
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read("stdout"),
          read("stderr")};
}

Ran ProgramFolder::run(const std::vector<std::string>& arguments) const {
  return wait(start(arguments));
}

Flags small_training() {
  return {{"n_layer", "1"},      {"n_head", "2"},      {"n_embd", "8"},        {"block_size", "8"},
          {"batch_size", "2"},   {"max_iters", "4"},   {"eval_interval", "2"}, {"eval_iters", "1"},
          {"log_interval", "1"}, {"tokenizer", "byte"}};
}

Flags training_flags(Case& c) {
  Flags flags = small_training();
  for (const char* name : kTrainFlags) {
    if (!c.input.has(name)) continue;
    const Json& value = c.input.at(name);
    flags[name] = value.is_string() ? value.get<std::string>() : dump_json_compact(value);
  }
  return flags;
}

std::vector<std::string> train_command(const std::string& text, const Flags& flags) {
  std::vector<std::string> words = {"train", text};
  for (const auto& [name, value] : flags) {
    std::string flag = "--" + name;
    std::ranges::replace(flag, '_', '-');
    words.push_back(flag);
    if (!value.empty()) words.push_back(value);
  }
  return words;
}

void require_reported(Case& c, const Ran& ran, const std::vector<std::string>& words) {
  c.require(ran.code > 0, "an exit code of an error", std::to_string(ran.code));
  c.require(!ran.err.empty() && ran.err.find('\n') + 1 == ran.err.size() &&
                ran.err.size() <= kLongestError + 1,
            "one line on standard error", "'" + printable(ran.err, 200) + "'");
  const auto dashed = [](std::string text) {  // flags have dashes where names have underscores
    std::ranges::replace(text, '_', '-');
    return text;
  };
  for (const std::string& word : words) {
    c.require(mentions(dashed(ran.err), dashed(word)), "the error to name " + word,
              "'" + printable(ran.err, 200) + "'");
  }
}

std::string text_of_bytes(Index bytes) {
  std::string text;
  for (Index i = 0; i < bytes; ++i) text += static_cast<char>('a' + i * i % 23);
  return text;
}

}  // namespace prenorm::cases
