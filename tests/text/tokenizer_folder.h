// What the tokenizers' tests share: a text with every kind of trouble, and a folder of its own.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "prenorm/base/file.h"
#include "prenorm/base/json.h"

namespace prenorm {

// Spaces, tab, CRLF, a combining mark, a character beyond the basic plane, no-break space.
inline const std::string kText =
    "Hello  \t\r\n w\xC3\xB6rld \xF0\x9F\x98\x80 e\xCC\x81 \xC2\xA0?\n\n";

class TokenizerFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "prenorm-tokenizer-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  // Changes one of the saved files.
  template <typename F>
  void edit(const char* file, F change) {
    Json json = parse_json(read_file(path_ / file), file);
    change(json);
    write_file_durably(path_ / file, dump_json(json));
  }

  std::filesystem::path path_;
};

}  // namespace prenorm
