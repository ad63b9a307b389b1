#include "prenorm/cli/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "prenorm/base/utf8.h"
#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using GenerateVerb = RunFixture;

TEST_F(GenerateVerb, generate_prints_the_prompt_and_its_continuation) {
  const Ran ran = run({"generate", "-m", "run", "-p", "the cat", "-n", "20"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("the cat"));
  EXPECT_TRUE(ran.out.ends_with("\n"));
  EXPECT_FALSE(find_invalid_utf8(ran.out)) << "half a character was printed";
  const Ran bare =
      run({"generate", "-m", "run", "-p", "the cat", "-n", "20", "--no-display-prompt"});
  EXPECT_EQ(ran.out, "the cat" + bare.out);
}

TEST_F(GenerateVerb, generate_is_decided_by_seed_and_flags_not_by_threads_or_instruction_set) {
  const std::vector<std::string> base = {"generate", "-m", "run",    "-p",    "the",
                                         "-n",       "40", "--json", "--seed"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    return json(all);
  };
  const auto one = with({"1", "--threads", "1"});
  EXPECT_EQ(one, with({"1", "--threads", "3"}));
  EXPECT_NE(one["ids"], with({"2"})["ids"]);
  EXPECT_EQ(one["ids"].size(), 40u);
  EXPECT_EQ(one["logprobs"].size(), 40u);
  EXPECT_EQ(one["stop"], "length");
  EXPECT_EQ(with({"1", "--temp", "0"})["ids"], with({"9", "--temp", "0"})["ids"]);
}

TEST_F(GenerateVerb, generate_makes_samples_that_do_not_depend_on_their_number) {
  const auto lines = [&](const char* count) {
    return run({"generate", "-m", "run", "-p", "a", "-n", "8", "--json", "--num-samples", count})
        .out;
  };
  const std::string three = lines("3");
  EXPECT_EQ(std::count(three.begin(), three.end(), '\n'), 3);
  EXPECT_THAT(three, StartsWith(lines("1")));
}

TEST_F(GenerateVerb, generate_slides_with_one_notice_or_stops_at_the_context) {
  const Ran slid = run({"generate", "-m", "run", "-p", "the", "-n", "60", "--num-samples", "2"});
  EXPECT_EQ(slid.code, 0);
  EXPECT_EQ(slid.err.find("context of 16 tokens"), slid.err.rfind("context of 16 tokens"));
  EXPECT_THAT(slid.err, HasSubstr("notice: "));
  const auto stopped =
      json({"generate", "-m", "run", "-p", "the", "-n", "60", "--no-slide", "--json"});
  EXPECT_EQ(stopped["ids"].size(), 14u);  // the last is predicted from a full context
  expect_error(run({"generate", "-m", "run", "-p", "a prompt of over 16 bytes", "--no-slide"}), 3,
               "prompt: expected at most the model's context of 16 tokens");
}

TEST_F(GenerateVerb, generate_ends_before_a_stop_text) {
  const auto free = json({"generate", "-m", "run", "-p", "a", "-n", "40", "--json", "--temp", "0"});
  const std::string text = free["text"];
  const std::string stop = text.substr(5, 2);
  const auto found = json(
      {"generate", "-m", "run", "-p", "a", "-n", "40", "--json", "--temp", "0", "--stop", stop});
  EXPECT_EQ(found["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(found["stop"], "string");
}

TEST_F(GenerateVerb, generate_reads_its_prompt_from_a_file_or_a_pipe) {
  spill(scratch_ / "prompt.txt", "the dog");
  const Ran argument = run({"generate", "-m", "run", "-p", "the dog", "-n", "5"});
  EXPECT_EQ(run({"generate", "-m", "run", "-f", "prompt.txt", "-n", "5"}).out, argument.out);
  EXPECT_EQ(run({"generate", "-m", "run", "-f", "-", "-n", "5"}, "the dog").out, argument.out);
  expect_error(run({"generate", "-m", "run", "-p", "a", "-f", "prompt.txt"}), 2, "--file");
  expect_error(run({"generate", "-m", "run", "-p", ""}), 3, "prompt: expected at least one token");
}

TEST_F(GenerateVerb, prompts_of_different_lengths_are_continued_as_each_alone) {
  spill(scratch_ / "p.jsonl",
        "{\"text\": \"the cat\"}\n{\"ids\": [97]}\n{\"text\": \"a dog or\"}\n{\"ids\": [98]}\n"
        "{\"text\": \"a prompt longer than the context\"}\n");
  const std::vector<std::string> base = {"generate", "-m",     "run", "-n",       "12",
                                         "--json",   "--temp", "0",   "--prompts"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = run(all);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  };
  std::string alone;
  for (const char* text : {"the cat", "a", "a dog or", "b", "a prompt longer than the context"}) {
    alone += run({"generate", "-m", "run", "-n", "12", "--json", "--temp", "0", "-p", text}).out;
  }
  EXPECT_EQ(with({"p.jsonl"}), alone);
  const std::string sampled = with({"p.jsonl", "--temp", "1", "--num-samples", "3"});
  EXPECT_EQ(std::count(sampled.begin(), sampled.end(), '\n'), 15);
  EXPECT_EQ(sampled, with({"p.jsonl", "--temp", "1", "--num-samples", "3", "--batch-size", "1"}));
  EXPECT_NE(sampled, with({"p.jsonl", "--temp", "1", "--num-samples", "3", "--seed", "2"}));
}

TEST_F(GenerateVerb, prompts_of_ids_need_no_tokenizer) {
  spill(scratch_ / "p.jsonl", "{\"ids\": [97, 98]}\n");
  const std::vector<std::string> arguments = {"generate", "-m",     "run", "-n",        "8",
                                              "--json",   "--temp", "0",   "--prompts", "p.jsonl"};
  auto expected = json(arguments);
  std::filesystem::remove(scratch_ / "run/tokenizer.json");
  const auto found = json(arguments);
  expected["text"] = nullptr;
  EXPECT_EQ(found, expected);
  expect_error(run({"generate", "-m", "run", "--json", "--prompts", "p.jsonl", "--stop", "a"}), 2,
               "--stop: expected a model with a tokenizer");
  spill(scratch_ / "q.jsonl", "{\"ids\": [1]}\n{\"text\": \"a\"}\n");
  expect_error(run({"generate", "-m", "run", "--json", "--prompts", "q.jsonl"}), 3,
               "q.jsonl, line 2: expected 'ids'");
}

TEST_F(GenerateVerb, each_prompt_ends_at_its_own_stop_text) {
  spill(scratch_ / "p.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n");
  const Ran ran = run({"generate", "-m", "run", "-n", "30", "--json", "--prompts", "p.jsonl",
                       "--temp", "0", "--stop", "e", " "});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::string alone;
  for (const char* text : {"a", "b", "c"}) {
    alone += run({"generate", "-m", "run", "-n", "30", "--json", "--temp", "0", "-p", text,
                  "--stop", "e", " "})
                 .out;
  }
  EXPECT_EQ(ran.out, alone);
}

TEST_F(GenerateVerb, prompts_that_cannot_be_continued_are_named_by_their_line) {
  spill(scratch_ / "p.jsonl", "{\"text\": \"a\"}\n{\"text\": \"a prompt of over 16 bytes\"}\n");
  expect_error(run({"generate", "-m", "run", "--json", "--no-slide", "--prompts", "p.jsonl"}), 3,
               "p.jsonl, line 2: expected at most the model's context of 16 tokens");
  expect_error(run({"generate", "-m", "run", "--json", "--prompts", "none.jsonl"}), 3,
               "none.jsonl");
  expect_error(run({"generate", "-m", "run", "--prompts", "p.jsonl"}), 2, "--prompts: expected");
  expect_error(run({"generate", "-m", "run", "--json", "-p", "a", "--prompts", "p.jsonl"}), 2,
               "--prompts: expected");
}

TEST_F(GenerateVerb, the_log_probabilities_of_a_prompt_are_those_it_had_when_generated) {
  spill(scratch_ / "p.jsonl", "{\"ids\": [97]}\n");
  const auto made = json({"generate", "-m", "run", "-n", "30", "--json", "--prompts", "p.jsonl"});
  auto ids = made["ids"];
  ids.insert(ids.begin(), 97);
  spill(scratch_ / "q.jsonl", nlohmann::json{{"ids", ids}}.dump());
  const auto scored = json(
      {"generate", "-m", "run", "-n", "0", "--json", "--prompt-logprobs", "--prompts", "q.jsonl"});
  auto logprobs = made["logprobs"];
  logprobs.insert(logprobs.begin(), nlohmann::json());
  EXPECT_EQ(scored["prompt_logprobs"], logprobs);
  EXPECT_EQ(scored["prompt_ids"], ids);
  EXPECT_TRUE(scored["ids"].empty());
  expect_error(run({"generate", "-m", "run", "-p", "a", "--prompt-logprobs"}), 2,
               "--prompt-logprobs: expected");
}

TEST_F(GenerateVerb, a_character_that_the_tokenizer_has_not_seen_is_named) {
  ASSERT_EQ(run(small_run({"--tokenizer", "char", "--out-dir", "chars"})).code, 0);
  const Ran ran = run({"generate", "-m", "chars", "-p", "the ß"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, StartsWith("prenorm: prompt: expected"));
  EXPECT_THAT(ran.err, HasSubstr("ß"));
}

}  // namespace
}  // namespace prenorm::cli
