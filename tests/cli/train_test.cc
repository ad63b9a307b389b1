#include "prenorm/cli/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "prenorm/text/bpe_tokenizer.h"
#include "tests/cli/run_program.h"
#include "tests/text/small_bpe.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class TrainVerb : public testing::Test {
 protected:
  TrainVerb() { spill(scratch_ / "text.txt", small_text()); }
  Ran train(const std::vector<std::string>& more, const std::string& input = "",
            const std::vector<std::string>& environment = {}) {
    return run_program(scratch_, small_run(more), input, environment);
  }
  std::string weights(const std::string& folder) {
    return slurp(scratch_ / (folder + "/model.safetensors"));
  }

  Scratch scratch_;
};

TEST_F(TrainVerb, leaves_a_whole_run_folder_and_tells_plan_progress_and_end) {
  const Ran ran = train({});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors",
                           "tokenizer.json", "tokenizer_config.json", "training_state.json",
                           "training_state.safetensors", "metrics.jsonl", "report.html"}) {
    EXPECT_TRUE(std::filesystem::exists(scratch_ / ("run/" + std::string(name)))) << name;
  }
  EXPECT_THAT(ran.err, HasSubstr("parameters"));
  EXPECT_THAT(ran.err, HasSubstr("FLOP"));
  EXPECT_THAT(ran.err, HasSubstr("at the peak"));
  EXPECT_THAT(ran.err, HasSubstr("iter 20/20  loss "));
  EXPECT_LT(ran.err.find("at the peak"), ran.err.find("iter "));
  EXPECT_THAT(ran.err, Not(HasSubstr("\r")));  // no terminal: whole lines only
  EXPECT_THAT(ran.out, HasSubstr("run/report.html"));
}

TEST_F(TrainVerb, prints_one_json_object_when_asked) {
  const Ran ran = train({"--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto result = nlohmann::json::parse(ran.out);
  EXPECT_EQ(result["iter"], 20);
  EXPECT_FALSE(result["interrupted"]);
  EXPECT_GT(result["val_loss"].get<double>(), 0.0);
}

TEST_F(TrainVerb, reads_standard_input_and_several_files) {
  spill(scratch_ / "b.txt", small_text());
  EXPECT_EQ(run_program(scratch_, small_run({"--out-dir", "two", "--data", "b.txt"})).code, 0);
  spill(scratch_ / "both.txt", small_text() + small_text());
  auto piped = small_run({"--out-dir", "piped"});
  piped[1] = "-";
  ASSERT_EQ(run_program(scratch_, piped, small_text() + small_text()).code, 0);
  EXPECT_EQ(weights("two"), weights("piped"));
}

TEST_F(TrainVerb, refuses_to_write_over_a_run_unless_told_to) {
  ASSERT_EQ(train({}).code, 0);
  const std::string before = weights("run");
  expect_error(train({"--seed", "5"}), 2, "--out-dir: expected a new folder, found a run in 'run'");
  EXPECT_EQ(weights("run"), before);
  EXPECT_EQ(train({"--seed", "5", "--force"}).code, 0);
  EXPECT_NE(weights("run"), before);
  expect_error(train({"--force", "--resume"}), 2, "--force: expected --resume or --force");
}

TEST_F(TrainVerb, a_resumed_run_ends_in_the_bits_of_one_that_was_not_interrupted) {
  ASSERT_EQ(train({"--out-dir", "whole"}).code, 0);
  ASSERT_EQ(train({"--out-dir", "parts", "--max-iters", "10", "--lr-decay-iters", "20",
                   "--warmup-iters", "1"})
                .code,
            0);
  const Ran resumed = train({"--out-dir", "parts", "--resume", "auto"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resume  step 10"));
  EXPECT_THAT(resumed.err, HasSubstr("max_iters: 10 before, 20 now"));
  EXPECT_EQ(weights("whole"), weights("parts"));
  // Each iteration is in the metrics once.
  EXPECT_EQ(lines_of(slurp(scratch_ / "whole/metrics.jsonl")).size(),
            lines_of(slurp(scratch_ / "parts/metrics.jsonl")).size());
}

TEST_F(TrainVerb, resume_without_a_state_starts) {
  const Ran ran = train({"--resume"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("resume  step")));
}

TEST_F(TrainVerb, a_resumed_run_keeps_its_model_and_its_tokenizer) {
  ASSERT_EQ(train({"--norm", "post", "--activation", "relu", "--bias"}).code, 0);
  auto resume = std::vector<std::string>{"train", "text.txt", "--resume", "--max-iters", "25"};
  const Ran same = run_program(scratch_, resume);
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(slurp(scratch_ / "run/config.json"), HasSubstr("\"post\""));
  resume.insert(resume.end(), {"--n-layer", "2"});
  expect_error(run_program(scratch_, resume), 2,
               "--n-layer: expected 1 as in the run to go on with, found 2");
  expect_error(run_program(scratch_, {"train", "text.txt", "--resume", "--tokenizer", "char"}), 2,
               "--tokenizer: expected byte as in the run to go on with, found char");
}

TEST_F(TrainVerb, trains_on_the_tokens_of_a_folder_and_keeps_them) {
  std::filesystem::create_directory(scratch_ / "bpe");
  BpeTokenizer(small_bpe()).save(scratch_ / "bpe");
  const Ran ran = train({"--tokenizer", "gpt2:bpe"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("as bpe tokens"));
  EXPECT_EQ(nlohmann::json::parse(slurp(scratch_ / "run/config.json"))["vocab_size"], 265);
  EXPECT_EQ(slurp(scratch_ / "run/tokenizer.json"), slurp(scratch_ / "bpe/tokenizer.json"));
  EXPECT_EQ(run_program(scratch_, {"generate", "-m", "run", "-p", "the", "-n", "5"}).code, 0);
  const Ran resumed = train({"--tokenizer", "bpe", "--resume", "--max-iters", "25"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  expect_error(train({"--tokenizer", "byte", "--resume"}), 2,
               "--tokenizer: expected bpe as in the run to go on with, found byte");
  expect_error(train({"--tokenizer", "words", "--force"}), 2, "--tokenizer: expected byte, char");
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "run/model.safetensors"));
}

TEST_F(TrainVerb, flags_overrule_the_environment_and_that_the_file) {
  spill(scratch_ / "c.toml", "[train]\nn_layer = 3\nn_embd = 32\nbias = true\n");
  const Ran ran = run_program(scratch_,
                              {"train", "text.txt", "--config", "c.toml", "--n-head", "2",
                               "--block-size", "16", "--max-iters", "1", "--n-layer", "1"},
                              "", {"PRENORM_N_LAYER=2", "PRENORM_N_EMBD=24"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto config = nlohmann::json::parse(slurp(scratch_ / "run/config.json"));
  EXPECT_EQ(config["n_layer"], 1);
  EXPECT_EQ(config["n_embd"], 24);
}

TEST_F(TrainVerb, dropout_sets_all_three_and_a_particular_one_overrules_it) {
  ASSERT_EQ(train({"--dropout", "0.25", "--attn-pdrop", "0"}).code, 0);
  const auto config = nlohmann::json::parse(slurp(scratch_ / "run/config.json"));
  EXPECT_EQ(config["embd_pdrop"], 0.25);
  EXPECT_EQ(config["resid_pdrop"], 0.25);
  EXPECT_EQ(config["attn_pdrop"], 0.0);
}

TEST_F(TrainVerb, a_held_out_part_shorter_than_the_context_is_told_and_never_nan) {
  spill(scratch_ / "text.txt", small_text().substr(0, 60));
  const Ran ran = train({"--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("notice: "));
  EXPECT_TRUE(nlohmann::json::parse(ran.out)["val_loss"].is_null());
  EXPECT_THAT(slurp(scratch_ / "run/metrics.jsonl"), Not(HasSubstr("nan")));
}

TEST_F(TrainVerb, the_first_interrupt_saves_and_ends_and_the_run_goes_on_from_there) {
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    Running running(
        scratch_, small_run({"--max-iters", "1000000", "--lr-decay-iters", "100", "--log-interval",
                             "1", "--eval-interval", "0", "--force"}));
    ASSERT_TRUE(running.wait_for("iter 3/")) << running.err_so_far();
    running.send(signal);
    const Ran ran = running.finish();
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("stopped and saved at step"));
    EXPECT_TRUE(std::filesystem::exists(scratch_ / "run/training_state.json"));
  }
  const auto state = nlohmann::json::parse(slurp(scratch_ / "run/training_state.json"));
  EXPECT_GE(state["position"]["iter"].get<int>(), 3);
}

TEST_F(TrainVerb, a_watch_goes_into_metrics_and_report_and_changes_no_bit) {
  EXPECT_EQ(train({"--out-dir", "plain"}).code, 0);
  const Ran ran = train({"--out-dir", "watched", "--watch"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(weights("watched"), weights("plain"));
  EXPECT_EQ(slurp(scratch_ / "watched/training_state.safetensors"),
            slurp(scratch_ / "plain/training_state.safetensors"));
  std::vector<int> iters;
  for (const std::string& line : lines_of(slurp(scratch_ / "watched/metrics.jsonl"))) {
    const auto object = nlohmann::json::parse(line);
    if (!object.contains("watch")) continue;
    iters.push_back(object["iter"]);
    ASSERT_EQ(object["watch"]["layers"].size(), 1u);
    for (const char* key : {"rms", "spread", "largest", "zeros", "max_score", "grad_norm"}) {
      EXPECT_TRUE(object["watch"]["layers"][0][key].is_number()) << key;
    }
  }
  EXPECT_EQ(iters, (std::vector<int>{1, 5, 10, 15, 20}));  // the log interval
  EXPECT_THAT(slurp(scratch_ / "watched/report.html"), HasSubstr("Health by block"));
  EXPECT_THAT(slurp(scratch_ / "plain/report.html"), Not(HasSubstr("Health by block")));
  EXPECT_THAT(slurp(scratch_ / "plain/metrics.jsonl"), Not(HasSubstr("watch")));
}

TEST_F(TrainVerb, a_watched_run_that_breaks_down_tells_where_with_the_frames_before) {
  const Ran ran =
      train({"--watch", "--watch-interval", "1", "--learning-rate", "1e6", "--grad-clip", "0",
             "--warmup-iters", "0", "--norm", "post", "--eval-interval", "0"});
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("notice: step 1: first bad number in "));
  EXPECT_THAT(ran.err, HasSubstr("watch:   iter 1: loss "));
  EXPECT_THAT(slurp(scratch_ / "run/metrics.jsonl"), HasSubstr("\"non_finite\":{\""));
  EXPECT_THAT(slurp(scratch_ / "run/report.html"), HasSubstr("First bad number"));
}

}  // namespace
}  // namespace prenorm::cli
