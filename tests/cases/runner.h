// Runs the cases of a file and tells what came of each, and of all by op.
//
//   Session session({folder, program, vocab});
//   const Summary summary = run_file("cases.jsonl", session, {}, std::cout);
//   return summary.total().failed == 0 ? 0 : 1;
#pragma once
#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "tests/cases/case.h"

namespace prenorm::cases {

struct Counts {
  int passed = 0, failed = 0, later = 0, skipped = 0;
};

struct Summary {
  std::map<std::string, Counts> by_op;
  Counts total() const;
};

struct RunOptions {
  std::vector<std::string> only;  // ids or ops; empty: all
  bool own_process = true;        // each case in a child, so that a crash is one case's failure
  int seconds = 300;              // that a child may take
};

// The lines of a file, one JSON object each; empty lines are left out. Throws FormatError.
std::vector<Json> read_cases(const std::filesystem::path& file);

// Runs one case in this process. Never throws for what is wrong with the case.
Outcome run_case(const Json& json, Session& session);
// The same in a child process: a signal or the time limit is a failure.
Outcome run_case_apart(const Json& json, Session& session, int seconds);

Summary run_file(const std::filesystem::path& file, Session& session, const RunOptions& options,
                 std::ostream& out);

}  // namespace prenorm::cases
