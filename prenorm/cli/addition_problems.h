// Addition problems as text: "47+85=132", one a line, numbers padded with zeros to one width.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace prenorm::cli {

struct AdditionProblem {
  int a = 0, b = 0;
};

struct AdditionProblems {
  std::vector<AdditionProblem> training, held_out;  // both in random order
};

// All sums of two numbers of up to `digits` digits, a twentieth of them (at most 2,000) held out: a
// function of the seed. Where a + b is held out, so is b + a. Requires: 1 <= digits <= 3.
AdditionProblems make_addition_problems(int digits, std::uint64_t seed);

// "47+85=" and "132" for two digits.
std::string addition_prompt(const AdditionProblem& problem, int digits);
std::string addition_answer(const AdditionProblem& problem, int digits);

// One problem a line.
std::string addition_text(const std::vector<AdditionProblem>& problems, int digits);

// A line of such a text, cut after the "=". Throws DataError naming the line.
struct AdditionLine {
  std::string prompt, answer;
};
std::vector<AdditionLine> parse_addition_text(const std::string& text, const std::string& name);

}  // namespace prenorm::cli
