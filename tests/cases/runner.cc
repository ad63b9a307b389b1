#include "tests/cases/runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <ostream>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "tests/cases/registry.h"

namespace prenorm::cases {
namespace {

using Kind = Outcome::Kind;

Outcome failed(std::string why) { return {Kind::kFailed, std::move(why)}; }

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string op_of(const Json& json) {
  const auto input = json.find("input");
  return input != json.end() && input->is_object() ? text_of(*input, "op") : "";
}

std::string verdict(const Outcome& outcome) {
  switch (outcome.kind) {
    case Kind::kPassed:
      return "pass";
    case Kind::kFailed:
      return "FAIL " + outcome.text;
    case Kind::kLater:
      return "later work: " + outcome.text;
    case Kind::kSkipped:
      return "skipped: " + outcome.text;
  }
  return "";
}

void count(Counts& counts, Kind kind) {
  counts.passed += kind == Kind::kPassed ? 1 : 0;
  counts.failed += kind == Kind::kFailed ? 1 : 0;
  counts.later += kind == Kind::kLater ? 1 : 0;
  counts.skipped += kind == Kind::kSkipped ? 1 : 0;
}

void print_table(const Summary& summary, std::ostream& out) {
  const auto row = [&](const std::string& name, const Counts& counts) {
    out << fmt::format("{:<28}{:>8}{:>8}{:>12}{:>9}\n", name, counts.passed, counts.failed,
                       counts.later, counts.skipped);
  };
  out << fmt::format("\n{:<28}{:>8}{:>8}{:>12}{:>9}\n", "op", "passed", "failed", "later work",
                     "skipped");
  for (const auto& [op, counts] : summary.by_op) row(op.empty() ? "(none)" : op, counts);
  row("all", summary.total());
}

// What a child writes to its pipe: the kind as a digit, then the text.
void tell(int pipe, const Outcome& outcome) {
  const std::string line = std::to_string(static_cast<int>(outcome.kind)) + outcome.text;
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t wrote = write(pipe, line.data() + at, line.size() - at);
    if (wrote <= 0) break;
    at += static_cast<std::size_t>(wrote);
  }
}

// All that comes out of the pipe until its end, or false at the time limit.
bool hear(int pipe, int seconds, std::string& heard) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd waiting{pipe, POLLIN, 0};
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) == 0) return false;
    char buffer[4096];
    const ssize_t got = read(pipe, buffer, sizeof buffer);
    if (got <= 0) return true;
    heard.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

Counts Summary::total() const {
  Counts all;
  for (const auto& [op, counts] : by_op) {
    all.passed += counts.passed;
    all.failed += counts.failed;
    all.later += counts.later;
    all.skipped += counts.skipped;
  }
  return all;
}

std::vector<Json> read_cases(const std::filesystem::path& file) {
  std::vector<Json> cases;
  const std::string text = read_file(file);
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view one(text.data() + begin, end - begin);
    ++line;
    if (one.find_first_not_of(" \t\r") != std::string_view::npos) {
      cases.push_back(parse_json(one, fmt::format("{}:{}", file.string(), line)));
    }
    begin = end + 1;
  }
  return cases;
}

Outcome run_case(const Json& json, Session& session) {
  const std::string op = op_of(json);
  if (const auto later = later_work(op); !later.empty()) return {Kind::kLater, std::string(later)};
  const auto found = registry().find(op);
  if (found == registry().end()) return failed("unknown op '" + printable(op) + "'");
  try {
    Case c(json, session);
    found->second(c);
    return c.outcome();
  } catch (const Skipped& reason) {
    return {Kind::kSkipped, reason.what()};
  } catch (const BadCase& error) {
    return failed(std::string("the case: ") + error.what());
  } catch (const Error& error) {
    return failed(std::string("error: ") + printable(error.what(), 300));
  } catch (const std::exception& error) {
    return failed(std::string("exception: ") + printable(error.what(), 300));
  }
}

Outcome run_case_apart(const Json& json, Session& session, int seconds) {
  int ends[2];
  if (pipe(ends) != 0) return failed("no pipe");
  const pid_t child = fork();
  if (child < 0) return failed("no child process");
  if (child == 0) {
    setpgid(0, 0);  // so that what it starts ends with it
    close(ends[0]);
    tell(ends[1], run_case(json, session));
    _exit(0);
  }
  close(ends[1]);
  std::string heard;
  const bool in_time = hear(ends[0], seconds, heard);
  close(ends[0]);
  if (!in_time) kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!in_time) return failed(fmt::format("took more than {} s", seconds));
  if (WIFSIGNALED(status)) {
    return failed(fmt::format("crashed: {}", strsignal(WTERMSIG(status))));
  }
  if (heard.empty() || WEXITSTATUS(status) != 0) {
    return failed(fmt::format("ended with exit code {}", WEXITSTATUS(status)));
  }
  return {static_cast<Kind>(heard[0] - '0'), heard.substr(1)};
}

Summary run_file(const std::filesystem::path& file, Session& session, const RunOptions& options,
                 std::ostream& out) {
  Summary summary;
  for (const Json& json : read_cases(file)) {
    const std::string id = text_of(json, "id"), op = op_of(json);
    const auto chosen = [&](const std::string& name) {
      return std::ranges::find(options.only, name) != options.only.end();
    };
    if (!options.only.empty() && !chosen(id) && !chosen(op)) continue;
    out.flush();  // or a child would have it too
    const Outcome outcome = options.own_process ? run_case_apart(json, session, options.seconds)
                                                : run_case(json, session);
    count(summary.by_op[op], outcome.kind);
    out << id << " " << op << "  " << verdict(outcome) << "\n";
    out.flush();
  }
  print_table(summary, out);
  return summary;
}

}  // namespace prenorm::cases
