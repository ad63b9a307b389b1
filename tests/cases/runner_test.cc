#include "tests/cases/runner.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <sstream>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/cases/registry.h"
#include "tests/temporary_folder.h"

namespace prenorm::cases {
namespace {

using Kind = Outcome::Kind;
using testing::HasSubstr;

Outcome run(const std::string& text) {
  Session session({});
  return run_case(parse_json(text, "case"), session);
}

// A case of softmax, whose expected numbers are `y` and whose input has one more key.
std::string softmax(const std::string& y, const std::string& more = "",
                    const std::string& expected = "") {
  return R"({"id": "A", "input": {"op": "softmax", "x": [[0, 0, "-inf"]])" + more +
         R"(}, "expected": {"y": )" + y + expected + R"(}, "tolerance": {"abs": 1e-6}})";
}

TEST(RunCases, a_case_passes_with_the_right_numbers_and_fails_with_others) {
  EXPECT_EQ(run(softmax("[[0.5, 0.5, 0.0]]")).kind, Kind::kPassed);
  const Outcome wrong = run(softmax("[[0.5, 0.25, 0.25]]"));
  EXPECT_EQ(wrong.kind, Kind::kFailed);
  EXPECT_THAT(wrong.text, HasSubstr("y[0, 1]: got 0.5, expected 0.25"));
  EXPECT_EQ(run(softmax(R"([["nan", 0.5, 0.0]])")).kind, Kind::kFailed);
  EXPECT_EQ(run(softmax("[[0.5, 0.5]]")).kind, Kind::kFailed);  // another shape
}

TEST(RunCases, a_failure_names_the_fault_whose_numbers_it_has) {
  const std::string wrong = R"(, "wrong_answers": {"no_mask": [0.5, 0.5, 0.0]})";
  EXPECT_THAT(run(softmax("[[0.4, 0.4, 0.2]]", "", wrong)).text,
              HasSubstr("matches the fault 'no_mask'"));
  const std::string other = R"(, "wrong_if_shifted": [[0.1, 0.5, 0.4]])";
  EXPECT_THAT(run(softmax("[[0.4, 0.4, 0.2]]", "", other)).text, Not(HasSubstr("fault")));
}

TEST(RunCases, an_unknown_op_and_an_unknown_key_are_failures) {
  EXPECT_THAT(run(R"({"id": "A", "input": {"op": "softmin"}, "expected": {}})").text,
              HasSubstr("unknown op 'softmin'"));
  EXPECT_THAT(run(softmax("[[0.5, 0.5, 0.0]]", R"(, "axis": 0)")).text,
              HasSubstr("input.axis: a key that 'softmax' does not know"));
  EXPECT_THAT(run(softmax("[[0.5, 0.5, 0.0]]", "", R"(, "z": 1)")).text,
              HasSubstr("expected.z: a key that 'softmax' does not know"));
  EXPECT_EQ(run(softmax("[[0.5, 0.5, 0.0]]", "", R"(, "note": "x", "torch_f32": [1])")).kind,
            Kind::kPassed);
}

TEST(RunCases, a_case_of_which_nothing_is_checked_is_a_failure) {
  EXPECT_THAT(run(R"({"id": "A", "input": {"op": "softmax", "x": [[0, 1]]}, "expected": {}})").text,
              HasSubstr("nothing was checked"));
}

TEST(RunCases, a_case_that_is_broken_is_a_failure_with_its_reason) {
  EXPECT_EQ(run(R"({"id": "A"})").kind, Kind::kFailed);
  EXPECT_EQ(run(R"({"id": "A", "input": {"op": "softmax"}, "expected": {"y": [1]}})").kind,
            Kind::kFailed);
  EXPECT_THAT(run(softmax("[[1, 2], [3]]")).text, HasSubstr("rows of equal length"));
  EXPECT_THAT(run(softmax("[[1, 2, 3]]").replace(0, 1, R"({"x": 1,)")).text, HasSubstr("y[0, 0]"));
}

TEST(RunCases, ops_of_later_work_are_told_by_name) {
  for (const char* op : {"rope_permute", "hf_llama_logits", "gguf_load"}) {
    const Outcome later =
        run(std::string(R"({"id": "A", "input": {"op": ")") + op + R"("}, "expected": {}})");
    EXPECT_EQ(later.kind, Kind::kLater);
    EXPECT_FALSE(later.text.empty());
    EXPECT_FALSE(registry().contains(op));
  }
}

TEST(RunCases, numbers_of_a_case_may_be_written_short) {
  EXPECT_EQ(array_from(parse_json(R"({"fill": 2.5, "n": 3})", "")).values,
            (std::vector<double>{2.5, 2.5, 2.5}));
  EXPECT_EQ(array_from(parse_json(R"([{"fill": 1, "n": 2}, [3, "inf"]])", "")).shape,
            (Shape{2, 2}));
  EXPECT_EQ(array_from("ones[2, 2]").values, (std::vector<double>{1, 1, 1, 1}));
  EXPECT_EQ(array_from("zeros", {3}).shape, (Shape{3}));
  // The first element of a generated input, as the cases' own numbers give it.
  EXPECT_EQ(array_from("val(1300, (2, 3), 512)").values, val(1300, {2, 3}, 512.0).values);
  EXPECT_EQ(val(1302, {1, 1}, 512.0).values.front(), 0.830078125);
  EXPECT_THROW(array_from("some"), BadCase);
  EXPECT_THROW(array_from(Json{{"fill", 1}}), BadCase);
}

TEST(RunCases, a_tolerance_is_absolute_relative_or_exact_but_for_rounding_to_float) {
  const Tolerance exact, absolute{.abs = 0.1, .rel = 0.0}, relative{.abs = 0.0, .rel = 0.01};
  EXPECT_TRUE(exact.admits(static_cast<float>(0.1), 0.1));
  EXPECT_FALSE(exact.admits(0.1000001, 0.1));
  EXPECT_FALSE(exact.admits(124318464.0, 124318465.0));  // counts are no floats
  EXPECT_TRUE(absolute.admits(1.09, 1.0));
  EXPECT_FALSE(absolute.admits(1.11, 1.0));
  EXPECT_TRUE(relative.admits(101.0, 100.0));
  EXPECT_FALSE(relative.admits(102.0, 100.0));
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = HUGE_VAL;
  EXPECT_TRUE(exact.admits(nan, nan));
  EXPECT_FALSE(absolute.admits(nan, 1.0));
  EXPECT_FALSE(absolute.admits(1.0, nan));
  EXPECT_TRUE(exact.admits(inf, inf));
  EXPECT_FALSE(relative.admits(-inf, inf));
  EXPECT_FALSE(relative.admits(1.0, inf));
}

TEST(RunCases, a_crash_and_a_hang_are_one_cases_failure) {
  Session session({});
  const Json json = parse_json(R"({"id": "A", "input": {"op": "sleep"}, "expected": {}})", "");
  auto& ops = const_cast<Registry&>(registry());
  ops["sleep"] = [](Case&) { pause(); };
  EXPECT_THAT(run_case_apart(json, session, 1).text, HasSubstr("more than 1 s"));
  ops["sleep"] = [](Case&) { raise(SIGKILL); };
  EXPECT_THAT(run_case_apart(json, session, 10).text, HasSubstr("crashed"));
  ops["sleep"] = [](Case&) { throw Skipped("no moon"); };
  EXPECT_EQ(run_case_apart(json, session, 10).kind, Kind::kSkipped);
  ops.erase("sleep");
}

TEST(RunCases, a_file_gives_a_line_a_case_and_a_table_by_op) {
  const TemporaryFolder folder("runner");
  const std::filesystem::path file = folder.path() / "cases.jsonl";
  write_file_durably(file, softmax("[[0.5, 0.5, 0.0]]") + "\n\n" + softmax("[[0.5, 0.5, 0.1]]") +
                               "\n" + R"({"id": "B", "input": {"op": "gguf_load"}})" + "\n");
  Session session({.folder = folder.path(), .program = {}, .gpt2_vocab = {}});
  std::ostringstream out;
  const Summary summary = run_file(file, session, {}, out);
  EXPECT_EQ(summary.total().passed, 1);
  EXPECT_EQ(summary.total().failed, 1);
  EXPECT_EQ(summary.total().later, 1);
  EXPECT_THAT(out.str(),
              HasSubstr("A softmax  pass\nA softmax  FAIL y[0, 2]: got 0, expected 0.1"));
  EXPECT_THAT(out.str(), HasSubstr("B gguf_load  later work: GGUF\n"));
  EXPECT_THAT(out.str(), testing::ContainsRegex("softmax +1 +1 +0 +0\n"));
  EXPECT_THAT(out.str(), testing::ContainsRegex("all +1 +1 +1 +0\n"));
  EXPECT_THROW(read_cases(folder.path() / "none"), IoError);
  write_file_durably(file, "{\n");
  EXPECT_THROW(read_cases(file), FormatError);
}

}  // namespace
}  // namespace prenorm::cases
