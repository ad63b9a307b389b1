// Ops of checkpoints in danger: a process killed while it saves, files cut short.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <regex>
#include <thread>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/checkpoint.h"
#include "tests/cases/program.h"
#include "tests/cases/registry.h"
#include "tests/cases/small_model.h"
#include "tests/temporary_folder.h"

namespace prenorm::cases {
namespace {

using std::chrono::microseconds;

SmallModel::Options small_options(std::uint64_t seed) { return {.n_embd = 32, .seed = seed}; }

// A child that saves two models in turn over one another, until it is killed.
pid_t start_saving(const SmallModel& one, const SmallModel& other,
                   const std::filesystem::path& to) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (;;) {
    save_pretrained(other.model(), to);
    save_pretrained(one.model(), to);
  }
}

// After each kill, at moments spread over a save, the folder holds one of the two, whole.
void kill_while_saving(Case& c, Index repeat) {
  const TemporaryFolder folder("kill");
  const std::filesystem::path file = folder.path() / "model.safetensors";
  SmallModel one(small_options(1)), other(small_options(2));
  save_pretrained(other.model(), folder.path());
  const std::string new_bytes = read_file(file);
  const auto start = std::chrono::steady_clock::now();
  save_pretrained(one.model(), folder.path());
  const auto took =
      std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - start);
  const std::string old_bytes = read_file(file);
  c.require(old_bytes != new_bytes, "two different models");
  for (Index i = 0; i < repeat; ++i) {
    const pid_t child = start_saving(one, other, folder.path());
    std::this_thread::sleep_for(took * (2 * i + 1) / repeat + microseconds(500));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    c.require(WIFSIGNALED(status), "a child that was killed while it saved");
    const std::string bytes = read_file(file);
    c.require(bytes == old_bytes || bytes == new_bytes, "the old or the new checkpoint, whole",
              fmt::format("{} bytes", bytes.size()));
    const auto model = load_pretrained(folder.path(), Gpt::Mode::kInference);
    const SmallModel& saved = bytes == old_bytes ? one : other;
    c.require(std::ranges::equal(model->parameters().values(), saved.model().parameters().values()),
              "a checkpoint that loads");
  }
}

// The program, killed while it trains and saves after every step, goes on with what it left.
void kill_while_training(Case& c, Index repeat) {
  const ProgramFolder folder(c.session().paths().program);
  folder.write("text.txt", text_of_bytes(4000));
  Flags flags = small_training();
  flags["out_dir"] = "run";
  flags["save_interval"] = "1";
  flags["eval_interval"] = "0";
  flags["max_iters"] = "1000000";
  flags["lr_schedule"] = "constant";
  flags["threads"] = "1";
  flags["resume"] = "";
  for (Index i = 0; i < repeat; ++i) {
    const std::string before = folder.read("run/training_state.json");
    const pid_t child = folder.start(train_command("text.txt", flags));
    const auto saves = [&] { return folder.read("run/training_state.json") != before; };
    int status = 0;
    bool ended = false;
    for (int wait = 0; wait < 2000 && !saves() && !ended; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ended = waitpid(child, &status, WNOHANG) == child;
    }
    c.require(!ended, "a training that goes on after a kill",
              printable(folder.read("stderr"), 200));
    if (ended) return;
    std::this_thread::sleep_for(microseconds(1700 * i + 300));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    load_pretrained(folder / "run", Gpt::Mode::kInference);
  }
}

void kill_during_save(Case& c) {
  const Index repeat = c.input.integer("repeat", 20);
  if (c.promise("behaviour").empty()) throw BadCase("expected.behaviour: expected a text");
  kill_while_saving(c, repeat);
  kill_while_training(c, repeat);
}

// --- Files cut short
// ------------------------------------------------------------------------------

// The lengths that `cut` names: "every byte length ...", a number, or a list of numbers.
std::vector<std::size_t> lengths(const Json& cut, std::size_t size) {
  std::vector<std::size_t> all;
  if (cut.is_string() && mentions(cut.get<std::string>(), "every")) {
    for (std::size_t n = 0; n < size; ++n) all.push_back(n);
  } else {
    const Array given = array_from(cut);
    for (const double n : given.values) all.push_back(static_cast<std::size_t>(n));
  }
  for (const std::size_t n : all) {
    if (n >= size) throw BadCase("input.cut: expected lengths below the file's size");
  }
  return all;
}

void load_truncated(Case& c) {
  const TemporaryFolder folder("cut");
  SmallModel small({.vocab_size = 7, .block_size = 4, .n_layer = 1, .n_head = 1, .n_embd = 4});
  save_pretrained(small.model(), folder.path());
  if (c.input.has("model_dir")) {
    std::filesystem::copy(c.file(c.input.text("model_dir")), folder.path(),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  }
  const std::filesystem::path file = folder.path() / "model.safetensors";
  const std::string whole = read_file(file);
  for (const std::size_t length : lengths(c.input.at("cut"), whole.size())) {
    std::filesystem::remove(file);
    write_plainly(file, whole.substr(0, length));
    std::vector<std::string> words = {"model.safetensors", "expected", "found"};
    if (length > 0) words.push_back(std::to_string(length));  // "have M"
    if (length > 8) words.push_back("incomplete");
    c.require_error(
        fmt::format("loading {} of {} bytes", length, whole.size()),
        [&] { load_pretrained(folder.path(), Gpt::Mode::kInference); }, words);
  }
  write_plainly(file, whole);
  c.require(load_pretrained(folder.path(), Gpt::Mode::kInference) != nullptr,
            "the whole file to load");
  if (c.promise("behaviour").empty()) throw BadCase("expected.behaviour: expected a text");
}

}  // namespace

void add_checkpoint_ops(Registry& ops) {
  ops["kill_during_save"] = kill_during_save;
  ops["load_truncated"] = load_truncated;
}

}  // namespace prenorm::cases
