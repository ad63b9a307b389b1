// Every number that a case expects is really compared: altered, the case fails.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cases/registry.h"
#include "tests/cases/runner.h"

namespace prenorm::cases {
namespace {

using Kind = Outcome::Kind;

// Numbers of one list that are altered one by one; of longer ones, so many spread evenly.
constexpr std::size_t kMostOfAList = 4;

std::filesystem::path cases_folder() {
  return std::filesystem::path(PRENORM_SOURCE_DIR) / ".." / "shared" / "cases";
}

// Paths of the numbers, booleans aside, below `value`.
void find_numbers(const Json& value, const Json::json_pointer& at,
                  std::vector<Json::json_pointer>& found) {
  if (value.is_number() || value == "nan" || value == "inf" || value == "-inf") {
    found.push_back(at);
  } else if (value.is_array()) {
    const std::size_t step = std::max<std::size_t>(1, value.size() / kMostOfAList);
    for (std::size_t i = 0; i < value.size(); i += step) find_numbers(value[i], at / i, found);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      const bool count = key == "n" && value.contains("fill");
      if (!is_documentation(key) && !count) find_numbers(member, at / key, found);
    }
  }
}

// Another number, far outside the tolerance.
Json altered(const Json& number, const Json& tolerance) {
  if (!number.is_number()) return 0.125;
  double room = 0.0;
  if (tolerance.is_object()) {
    room =
        tolerance.value("abs", 0.0) + tolerance.value("rel", 0.0) * std::abs(number.get<double>());
  }
  if (number.is_number_integer() && room < 0.5) return number.get<Index>() + 1;
  const double value = number.get<double>();
  return value + std::max({10.0 * room, 1e-3 * std::abs(value), 1e-6});
}

TEST(Cases, each_expected_number_is_compared) {
  const std::filesystem::path file = cases_folder() / "cases.jsonl";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no shared/cases beside the project";
  if (std::string(PRENORM_PROGRAM).empty()) GTEST_SKIP() << "built without the program";
  Session session({.folder = cases_folder(),
                   .program = PRENORM_PROGRAM,
                   .gpt2_vocab = cases_folder() / ".." / "data" / "gpt2-bpe"});
  int alterations = 0;
  for (const Json& json : read_cases(file)) {
    std::vector<Json::json_pointer> numbers;
    find_numbers(json.at("expected"), Json::json_pointer("/expected"), numbers);
    if (numbers.empty()) continue;
    const std::string id = json.at("id").get<std::string>();
    const Outcome as_it_is = run_case(json, session);
    if (as_it_is.kind == Kind::kLater || as_it_is.kind == Kind::kSkipped) continue;
    EXPECT_EQ(as_it_is.kind, Kind::kPassed) << id << ": " << as_it_is.text;
    for (const Json::json_pointer& at : numbers) {
      Json other = json;
      other[at] = altered(json.at(at), json.value("tolerance", Json()));
      EXPECT_EQ(run_case(other, session).kind, Kind::kFailed)
          << id << ": " << at << " " << json.at(at) << " as " << other[at];
      ++alterations;
    }
  }
  EXPECT_GT(alterations, 500);
}

}  // namespace
}  // namespace prenorm::cases
