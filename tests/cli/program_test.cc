// The program as a whole: pages, exit codes and the one line of every wrong input.
#include "prenorm/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "tests/cli/run_program.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;

TEST(Program, without_a_verb_it_shows_its_verbs) {
  const Scratch scratch;
  const Ran ran = run_program(scratch, {});
  EXPECT_EQ(ran.code, 0);
  for (const char* verb : {"train", "generate", "eval", "inspect", "addition"}) {
    EXPECT_THAT(ran.out, HasSubstr(verb));
  }
  EXPECT_EQ(run_program(scratch, {"--help"}).out, ran.out);
  EXPECT_EQ(ran.err, "");
}

TEST(Program, every_verb_has_a_page_with_defaults_and_an_example) {
  const Scratch scratch;
  for (const char* verb : {"train", "generate", "eval", "inspect", "addition"}) {
    const Ran ran = run_program(scratch, {verb, "--help"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, HasSubstr(std::string("Example\n  prenorm ") + verb));
    EXPECT_THAT(ran.out, HasSubstr("--config FILE"));
    EXPECT_EQ(run_program(scratch, {"help", verb}).out, ran.out);
  }
  EXPECT_THAT(run_program(scratch, {"generate", "-h"}).out, HasSubstr("[0.8]"));
}

TEST(Program, help_is_quick) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own start takes longer";
#endif
  const Scratch scratch;
  run_program(scratch, {"--help"});  // the first start reads the file from disk
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run_program(scratch, {"train", "--help"});
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
  }
  EXPECT_LT(std::chrono::duration<double>(best).count(), 0.05);
}

TEST(Program, the_version_names_compiler_and_instruction_sets) {
  const Scratch scratch;
  const Ran ran = run_program(scratch, {"--version"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, testing::StartsWith("prenorm 0."));
  EXPECT_THAT(ran.out, HasSubstr("compiler: "));
  EXPECT_THAT(ran.out, HasSubstr("instruction sets here: "));
}

TEST(Program, an_unknown_verb_names_the_nearest) {
  const Scratch scratch;
  expect_error(
      run_program(scratch, {"trian"}), 2,
      "verb: expected one that `prenorm --help` lists, found 'trian'; did you mean train?");
  expect_error(run_program(scratch, {"--frobnicate"}), 2, "--frobnicate: expected a verb first");
  expect_error(run_program(scratch, {"--versio"}), 2,
               "--versio: expected a verb first, found '--versio'; did you mean --version?");
}

TEST(Program, wrong_flags_are_usage_errors_that_name_the_flag) {
  const Scratch scratch;
  spill(scratch / "text.txt", small_text());
  expect_error(run_program(scratch, {"train", "text.txt", "--lerning-rate", "1"}), 2,
               "--lerning-rate: expected a known flag, found '--lerning-rate'; did you mean "
               "--learning-rate?");
  expect_error(run_program(scratch, {"train", "text.txt", "--n-head", "3", "--n-embd", "16"}), 2,
               "n_head");
  for (const char* flag : {"--n-layer", "--n-head", "--n-embd", "--block-size", "--batch-size"}) {
    for (const char* value : {"0", "-4"}) {
      expect_error(
          run_program(scratch, {"train", "text.txt", flag, value}), 2,
          std::string(flag) + ": expected a whole number from 1 to 1048576, found '" + value);
    }
  }
  expect_error(run_program(scratch, {"train", "text.txt", "--learning-rate", "nan"}), 2,
               "--learning-rate: expected a number from 0 to 1000000, found 'nan'");
  expect_error(run_program(scratch, {"generate", "-m", "run", "--temp", "nan"}), 2,
               "--temp: expected a number of at least 0, found 'nan'");
  expect_error(run_program(scratch, {"generate", "-m", "run", "--temp", "-1"}), 2, "--temp");
  expect_error(run_program(scratch, {"train"}), 2, "--data: expected a text file, found none");
  expect_error(run_program(scratch, {"generate"}), 2, "-m: expected a model folder, found none");
  expect_error(run_program(scratch, {"train", "text.txt"}, "", {"PRENORM_N_LAYER=few"}), 2,
               "PRENORM_N_LAYER: expected a whole number from 1 to 1048576, found 'few'");
  expect_error(run_program(scratch, small_run({"--isa", "sse9"})), 2, "isa: expected");
  EXPECT_FALSE(std::filesystem::exists(scratch / "run"));
}

TEST(Program, bad_data_is_bad_input_that_names_the_file) {
  const Scratch scratch;
  const auto with_text = [&](const std::string& text, std::vector<std::string> more = {}) {
    spill(scratch / "text.txt", text);
    more.insert(more.end(), {"--force"});
    return run_program(scratch, small_run(more));
  };
  expect_error(run_program(scratch, {"train", "missing.txt"}), 3, "missing.txt: expected");
  EXPECT_FALSE(std::filesystem::exists(scratch / "run"));
  expect_error(with_text(""), 3, "text.txt");
  EXPECT_EQ(with_text("a").code, 3);
  EXPECT_EQ(with_text("\n\n\n").code, 3);
  const Ran eighteen = with_text("eighteen tokens...", {"--block-size", "512"});
  EXPECT_EQ(eighteen.code, 3);
  EXPECT_THAT(eighteen.err, HasSubstr("18"));
  EXPECT_THAT(eighteen.err, HasSubstr("512"));
  const Ran not_utf8 = with_text("it\x92s \n", {"--tokenizer", "char"});
  EXPECT_EQ(not_utf8.code, 3);
  EXPECT_THAT(not_utf8.err, HasSubstr("text.txt"));
  EXPECT_THAT(not_utf8.err, HasSubstr("2"));
  expect_error(run_program(scratch, {"eval", "-m", "nowhere", "text.txt"}), 3, "nowhere");
  expect_error(run_program(scratch, {"generate", "-m", "nowhere", "-p", "a"}), 3, "nowhere");
  expect_error(run_program(scratch, {"inspect", "nowhere"}), 3, "nowhere");
}

TEST(Program, a_folder_that_cannot_be_written_is_found_before_training) {
  const Scratch scratch;
  spill(scratch / "text.txt", small_text());
  spill(scratch / "file", "not a folder");
  expect_error(run_program(scratch, small_run({"--out-dir", "file"})), 3, "file: expected");
  expect_error(run_program(scratch, small_run({"--out-dir", "file/run"})), 3, "file/run: expected");
  expect_error(run_program(scratch, small_run({"--out-dir", "/proc/run"})), 3,
               "/proc/run: expected");
}

TEST(Program, a_full_disk_is_an_error_and_a_closed_pipe_is_none) {
  const Scratch scratch;
  const std::string program = PRENORM_PROGRAM;
  const auto shell = [&](const std::string& line) {
    return WEXITSTATUS(std::system((line + " 2>" + (scratch / "err").string()).c_str()));
  };
  EXPECT_EQ(shell(program + " --help >/dev/full"), 3);
  EXPECT_THAT(slurp(scratch / "err"), HasSubstr("standard output: expected room to write"));
  EXPECT_EQ(shell("bash -o pipefail -c '" + program + " train --help | true'"), 0);
  EXPECT_EQ(slurp(scratch / "err"), "");
  EXPECT_EQ(shell(program + " --help >&-"), 0);
}

TEST(Program, the_environment_is_filtered_by_prefix) {
  const char* const environment[] = {"PATH=/bin", "PRENORM_SEED=3", "PRENORM_PROMPT=a=b", "PRENORM",
                                     nullptr};
  EXPECT_THAT(
      program_environment(environment),
      testing::ElementsAre(Variable("PRENORM_SEED", "3"), Variable("PRENORM_PROMPT", "a=b")));
}

}  // namespace
}  // namespace prenorm::cli
