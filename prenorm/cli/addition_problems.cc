#include "prenorm/cli/addition_problems.h"

#include <fmt/format.h>

#include <algorithm>

#include "prenorm/base/error.h"
#include "prenorm/base/philox.h"
#include "prenorm/base/utf8.h"

namespace prenorm::cli {
namespace {

// Fisher and Yates' shuffle, from the counter-based generator.
void shuffle(std::vector<AdditionProblem>& problems, PhiloxKey key) {
  for (std::size_t i = problems.size(); i > 1; --i) {
    const double u = random_double(key, i);
    std::swap(problems[i - 1], problems[static_cast<std::size_t>(u * static_cast<double>(i))]);
  }
}

PhiloxKey key_of(std::uint64_t seed, std::uint32_t use) {
  return RandomStream{seed, Purpose::kBatchOrder, 0, use}.key();
}

}  // namespace

AdditionProblems make_addition_problems(int digits, std::uint64_t seed) {
  constexpr std::size_t kMostHeldOut = 2000, kShareHeldOut = 20;
  int numbers = 1;
  for (int i = 0; i < digits; ++i) numbers *= 10;
  std::vector<AdditionProblem> pairs;  // a <= b
  for (int a = 0; a < numbers; ++a) {
    for (int b = a; b < numbers; ++b) pairs.push_back({a, b});
  }
  shuffle(pairs, key_of(seed, 0));
  const auto all = static_cast<std::size_t>(numbers) * static_cast<std::size_t>(numbers);
  const std::size_t wanted = std::min(kMostHeldOut, all / kShareHeldOut);
  AdditionProblems problems;
  for (const AdditionProblem& pair : pairs) {
    auto& part = problems.held_out.size() < wanted ? problems.held_out : problems.training;
    part.push_back(pair);
    if (pair.a != pair.b) part.push_back({pair.b, pair.a});
  }
  shuffle(problems.training, key_of(seed, 1));
  shuffle(problems.held_out, key_of(seed, 2));
  return problems;
}

std::string addition_prompt(const AdditionProblem& problem, int digits) {
  return fmt::format("{:0{}}+{:0{}}=", problem.a, digits, problem.b, digits);
}

std::string addition_answer(const AdditionProblem& problem, int digits) {
  return fmt::format("{:0{}}", problem.a + problem.b, digits + 1);
}

std::string addition_text(const std::vector<AdditionProblem>& problems, int digits) {
  std::string text;
  for (const AdditionProblem& problem : problems) {
    text += addition_prompt(problem, digits) + addition_answer(problem, digits) + '\n';
  }
  return text;
}

std::vector<AdditionLine> parse_addition_text(const std::string& text, const std::string& name) {
  std::vector<AdditionLine> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    begin = end + 1;
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals + 1 == line.size()) {
      throw DataError(fmt::format("{}: expected a problem such as 47+85=132 in line {}, found '{}'",
                                  printable(name), lines.size() + 1, printable(line)));
    }
    lines.push_back({line.substr(0, equals + 1), line.substr(equals + 1)});
  }
  if (lines.empty()) {
    throw DataError(printable(name) + ": expected addition problems, found none");
  }
  return lines;
}

}  // namespace prenorm::cli
