// Runs a file of cases, public bug reports turned into inputs with right answers, through the
// library and the program:
//
//   run_cases ../shared/cases/cases.jsonl [--only ID_OR_OP]... [--gpt2-vocab DIR]
//             [--program FILE] [--in-process]
//
// One line a case, a table by op at the end. Exit code 0 where nothing failed, 1 where something
// did, 2 for wrong usage, 77 where the file is absent.
#include <filesystem>
#include <iostream>

#include "prenorm/base/error.h"
#include "tests/cases/runner.h"

namespace prenorm::cases {
namespace {

constexpr int kFailed = 1, kUsage = 2, kAbsent = 77;

int usage() {
  std::cerr << "usage: run_cases FILE.jsonl [--only ID_OR_OP]... [--gpt2-vocab DIR] "
               "[--program FILE] [--in-process]\n";
  return kUsage;
}

int run(const std::vector<std::string>& words) {
  std::filesystem::path file;
  Session::Paths paths{.folder = {}, .program = PRENORM_PROGRAM, .gpt2_vocab = {}};
  RunOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--in-process") {
      options.own_process = false;
    } else if (words[i] == "--only" && has_value) {
      options.only.push_back(words[++i]);
    } else if (words[i] == "--gpt2-vocab" && has_value) {
      paths.gpt2_vocab = words[++i];
    } else if (words[i] == "--program" && has_value) {
      paths.program = words[++i];
    } else if (!words[i].starts_with("-") && file.empty()) {
      file = words[i];
    } else {
      return usage();
    }
  }
  if (file.empty()) return usage();
  if (!std::filesystem::exists(file)) {
    std::cerr << "run_cases: " << file.string() << ": expected a file, found none; skipped\n";
    return kAbsent;
  }
  paths.folder = std::filesystem::absolute(file).parent_path();
  paths.program = std::filesystem::absolute(paths.program);
  if (paths.gpt2_vocab.empty()) paths.gpt2_vocab = paths.folder / ".." / "data" / "gpt2-bpe";
  Session session(paths);
  const Summary summary = run_file(file, session, options, std::cout);
  return summary.total().failed == 0 ? 0 : kFailed;
}

}  // namespace
}  // namespace prenorm::cases

int main(int argc, char** argv) {
  try {
    return prenorm::cases::run({argv + 1, argv + argc});
  } catch (const prenorm::Error& error) {
    std::cerr << "run_cases: " << error.what() << "\n";
    return prenorm::cases::kUsage;
  }
}
