#include "prenorm/cli/program.h"

#include <algorithm>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/suggest.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/failure.h"
#include "prenorm/cli/help.h"
#include "prenorm/cli/message.h"

namespace prenorm::cli {
namespace {

const VerbEntry& find_verb(const std::string& name) {
  std::vector<std::string> known;
  for (const VerbEntry& entry : all_verbs()) {
    if (entry.name == name) return entry;
    known.emplace_back(entry.name);
  }
  throw ConfigError("verb: expected one that `prenorm --help` lists, found " + in_quotes(name) +
                    did_you_mean(name, known));
}

int run_verb(const VerbEntry& entry, const Invocation& invocation, const Streams& streams) {
  std::vector<std::unique_ptr<Verb>> verbs;
  std::vector<OptionTable> tables(all_verbs().size());
  std::vector<VerbTable> by_name;
  std::size_t own = 0;
  for (const VerbEntry& other : all_verbs()) {
    const std::size_t i = verbs.size();
    if (other.name == entry.name) own = i;
    verbs.push_back(other.make());
    verbs.back()->declare(tables[i]);
    by_name.push_back({std::string(other.name), &tables[i]});
  }
  if (!read_options(tables[own], invocation, std::string(entry.name), by_name)) {
    streams.out.write(verb_help(entry, tables[own]));
    return kDone;
  }
  return verbs[own]->run(tables[own], streams);
}

int dispatch(std::vector<std::string> arguments, std::vector<Variable> environment,
             const Streams& streams) {
  const std::string first = arguments.empty() ? "--help" : arguments.front();
  if (first == "--help" || first == "-h" || (first == "help" && arguments.size() == 1)) {
    streams.out.write(program_help(all_verbs()));
    return kDone;
  }
  if (first == "--version" || first == "-V") {
    streams.out.write(version_text());
    return kDone;
  }
  Invocation invocation{{arguments.begin() + 1, arguments.end()}, std::move(environment)};
  if (first == "help") {
    return run_verb(find_verb(invocation.arguments.front()), {{"--help"}, {}}, streams);
  }
  if (first.starts_with("-")) {
    const std::vector<std::string> known = {"help", "version"};
    const std::size_t dashes = std::min(first.find_first_not_of('-'), first.size());
    throw ConfigError(printable(first) + ": expected a verb first, found " + in_quotes(first) +
                      did_you_mean(first.substr(dashes), known, "--"));
  }
  return run_verb(find_verb(first), invocation, streams);
}

int report(const Streams& streams, int code, const std::string& message) {
  // Results that were complete come before the error, whatever becomes of them.
  try {
    streams.out.flush();
  } catch (...) {
  }
  streams.log.write(error_lines(message));
  streams.log.flush();
  return code;
}

}  // namespace

int run_program(std::vector<std::string> arguments, std::vector<Variable> environment,
                const Streams& streams) noexcept {
  try {
    const int code = dispatch(std::move(arguments), std::move(environment), streams);
    streams.out.flush();
    streams.log.flush();
    return code;
  } catch (...) {
    const Failure failure = current_failure();
    return failure.message.empty() ? failure.code : report(streams, failure.code, failure.message);
  }
}

std::vector<Variable> program_environment(const char* const* environment) {
  constexpr std::string_view kPrefix = "PRENORM_";
  std::vector<Variable> variables;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

}  // namespace prenorm::cli
