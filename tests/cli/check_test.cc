#include "prenorm/cli/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "prenorm/study/kernel_pass.h"
#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class CheckVerb : public RunFixture {
 protected:
  // The verb with other passes in the model's place, on the fixture's run.
  Ran run_with(CheckSeams seams, bool as_json) {
    Ran ran;
    std::FILE* file = std::tmpfile();
    {
      Output out(fileno(file), "a file", Output::OnFailure::kThrow);
      Output log(STDERR_FILENO, "standard error", Output::OnFailure::kIgnore);
      const auto verb = make_check(std::move(seams));
      OptionTable table;
      verb->declare(table);
      table.find("model")->assign({(scratch_ / "run").string()});
      if (as_json) table.find("json")->assign({"true"});
      ran.code = verb->run(table, {out, log});
    }
    std::rewind(file);
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
      ran.out += static_cast<char>(c);
    }
    std::fclose(file);
    return ran;
  }
};

TEST_F(CheckVerb, a_run_has_the_properties_one_line_each) {
  const Ran ran = run({"check", "run"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* name : {"causality", "batch", "cache", "threads", "identity", "gradients",
                           "norm-mean", "norm-variance", "model-gradients", "gradient-threads"}) {
    EXPECT_THAT(ran.out, HasSubstr(std::string("pass  ") + name));
  }
  EXPECT_THAT(ran.out, HasSubstr("All 10 properties hold."));
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 11);
  EXPECT_EQ(run({"check", "-m", "run"}).out, ran.out);
  EXPECT_EQ(run({"check", "run", "--threads", "3"}).out, ran.out);
}

TEST_F(CheckVerb, json_holds_figure_bound_and_verdict_of_each) {
  const auto result = json({"check", "run", "--json"});
  EXPECT_EQ(result["passed"], true);
  EXPECT_EQ(result["properties"].size(), 10u);
  for (const auto& p : result["properties"]) {
    EXPECT_EQ(p["passed"], true) << p;
    EXPECT_LE(p["measured"].get<double>(), p["bound"].get<double>()) << p;
  }
}

TEST_F(CheckVerb, a_property_that_fails_is_shown_with_its_figure_and_exit_code_1) {
  CheckSeams seams;
  seams.layer = [](const Runtime& run, const LayerPass& pass) {
    LayerOutcome out = kernel_pass(run, pass);
    if (pass.layer == ApplyLayer::kBlock) out.output[0] += 1e-3;
    return out;
  };
  const Ran ran = run_with(seams, false);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("FAIL  identity          1        bound 0"));
  EXPECT_THAT(ran.out, HasSubstr("pass  causality"));
  EXPECT_THAT(ran.out, HasSubstr("1 of 10 properties fail."));
  const Ran as_json = run_with(seams, true);
  EXPECT_EQ(as_json.code, 1);
  EXPECT_EQ(nlohmann::json::parse(as_json.out)["passed"], false);
}

TEST_F(CheckVerb, it_needs_one_model_folder_with_finite_weights_and_no_tokenizer) {
  expect_error(run({"check"}), 2, "-m: expected one model folder, found 0");
  expect_error(run({"check", "run", "run"}), 2, "-m: expected one model folder, found 2");
  EXPECT_EQ(run({"check", "nowhere"}).code, 3);
  spill(scratch_ / "run/tokenizer.json", "{");
  EXPECT_EQ(run({"check", "run"}).code, 0);
  damage_weights();
  expect_error(run({"check", "run"}), 4, "run: expected finite weights");
}

}  // namespace
}  // namespace prenorm::cli
