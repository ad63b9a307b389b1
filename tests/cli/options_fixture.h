// A verb's options with every kind of them, for the tests of what reads them.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/cli/option_reader.h"
#include "tests/temporary_folder.h"

namespace prenorm::cli {

class OptionsFixture : public testing::Test {
 protected:
  OptionsFixture() {
    table_.group("Model");
    table_.integer("n-layer", layers_, {1, 100}, "layers");
    table_.real("learning-rate", rate_, {.min = 0}, "rate");
    table_.real("top-p", top_p_, {.min = 0, .max = 1, .above_min = true}, "nucleus");
    table_.toggle("bias", bias_, "biases");
    table_.flag("resume", resume_, "go on").may_be_followed_by("auto");
    table_.choice("norm", norm_, {"pre", "post"}, "placement");
    table_.text("prompt", prompt_, "TEXT", "prompt").short_name('p');
    table_.texts("data", data_, "FILE", "text").from_positionals();
    table_.seed("seed", seed_, "seed");
    table_.text("config", config_, "FILE", "file");
    other_.integer("samples", samples_, {}, "samples");
  }

  bool read(std::vector<std::string> arguments, std::vector<Variable> environment = {}) {
    const std::vector<VerbTable> verbs = {{"train", &table_}, {"generate", &other_}};
    return read_options(table_, {std::move(arguments), std::move(environment)}, "train", verbs);
  }

  std::string error(std::vector<std::string> arguments, std::vector<Variable> environment = {}) {
    try {
      read(std::move(arguments), std::move(environment));
    } catch (const Error& caught) {
      return caught.what();
    }
    return "no error";
  }

  std::string file(const std::string& text) {
    path_ = (temporary_.path() / "options.toml").string();
    std::ofstream(path_) << text;
    return path_;
  }

  const TemporaryFolder temporary_{"options"};
  OptionTable table_, other_;
  int layers_ = 4, samples_ = 1;
  double rate_ = 0.5, top_p_ = 0.9;
  bool bias_ = true, resume_ = false;
  std::string norm_ = "pre", prompt_, config_, path_;
  std::vector<std::string> data_;
  std::uint64_t seed_ = 1;
};

}  // namespace prenorm::cli
