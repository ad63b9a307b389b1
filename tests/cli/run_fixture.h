// A small run that `prenorm train` has made, for the tests of the verbs that use one.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/run_program.h"

namespace prenorm::cli {

class RunFixture : public testing::Test {
 protected:
  RunFixture() {
    spill(scratch_ / "text.txt", small_text());
    const Ran ran = run_program(scratch_, small_run({"--json"}));
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
  Ran run(const std::vector<std::string>& arguments, const std::string& input = "") {
    return run_program(scratch_, arguments, input);
  }
  nlohmann::json json(const std::vector<std::string>& arguments, const std::string& input = "") {
    const Ran ran = run(arguments, input);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out);
  }
  void damage_weights() {
    std::string bytes = slurp(scratch_ / "run/model.safetensors");
    bytes.replace(bytes.size() - 4, 4, std::string("\x00\x00\xC0\x7F", 4));  // NaN
    spill(scratch_ / "run/model.safetensors", bytes);
  }

  Scratch scratch_;
};

}  // namespace prenorm::cli
