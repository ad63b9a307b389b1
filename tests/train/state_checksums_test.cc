#include "prenorm/train/state_checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/formats/safetensors.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using ::testing::HasSubstr;

class StateChecksums : public ::testing::Test {
 protected:
  StateChecksums() {
    save_safetensors(path_ / "model.safetensors",
                     {tensor("a", {2, 3}, std::span<const float>(values_)),
                      tensor("none", {0}, std::span<const float>()),
                      tensor("b", {6}, std::span<const float>(values_))});
    write_file_durably(path_ / "config.json", "{}\n");
    write_file_durably(path_ / "notes.txt", "of the user\n");
  }
  // What checking says after the bytes of a file were changed.
  std::string after(const std::string& name, const std::string& bytes) const {
    const Json files = checksums_of_files(path_);
    const std::string before = read_file(path_ / name);
    write_file_durably(path_ / name, bytes);
    std::string text;
    try {
      check_files(path_, files);
    } catch (const FormatError& error) {
      text = error.what();
    }
    write_file_durably(path_ / name, before);
    return text;
  }

  const std::vector<float> values_ = {1, 2, 3, 4, 5, 6};
  const TemporaryFolder folder_{"checksums"};
  const std::filesystem::path path_ = folder_.path();
};

TEST_F(StateChecksums, files_of_a_state_are_in_and_others_are_not) {
  const Json files = checksums_of_files(path_);
  EXPECT_EQ(files.size(), 2u);
  EXPECT_EQ(files["config.json"]["bytes"], 3);
  EXPECT_EQ(files["model.safetensors"]["tensors"].size(), 3u);
  EXPECT_NO_THROW(check_files(path_, files));
}

TEST_F(StateChecksums, the_tensor_that_changed_is_named) {
  std::string bytes = read_file(path_ / "model.safetensors");
  bytes[bytes.size() - 3] ^= 1;
  EXPECT_THAT(after("model.safetensors", bytes),
              HasSubstr("model.safetensors: expected tensor 'b' as saved (checksum "));
  bytes = read_file(path_ / "model.safetensors");
  bytes[bytes.size() - 30] ^= 1;
  EXPECT_THAT(after("model.safetensors", bytes), HasSubstr("expected tensor 'a' as saved"));
  bytes = read_file(path_ / "model.safetensors");
  bytes[bytes.find("\"b\"") + 1] = 'c';
  EXPECT_THAT(after("model.safetensors", bytes), HasSubstr("expected a header as saved"));
}

TEST_F(StateChecksums, every_length_but_the_right_one_is_refused) {
  const std::string bytes = read_file(path_ / "model.safetensors");
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THAT(after("model.safetensors", bytes.substr(0, n)), HasSubstr("bytes that were saved"));
  }
  EXPECT_THAT(after("model.safetensors", bytes + "x"), HasSubstr("bytes that were saved, found"));
  EXPECT_THAT(after("config.json", "[]\n"), HasSubstr("config.json: expected bytes as saved"));
  EXPECT_EQ(after("notes.txt", "changed"), "");
}

TEST_F(StateChecksums, a_missing_file_and_nonsense_instead_of_checksums_are_typed_errors) {
  const Json files = checksums_of_files(path_);
  std::filesystem::remove(path_ / "config.json");
  EXPECT_THROW(check_files(path_, files), IoError);
  for (const char* text :
       {"[]", R"({"config.json": 3})", R"({"config.json": {"bytes": -1, "crc32": ""}})",
        R"({"../config.json": {"bytes": 3, "crc32": "00000000"}})",
        R"({"model.safetensors": {"bytes": 5, "header": "", "tensors": [["a", 6, ""]]}})",
        R"({"model.safetensors": {"bytes": 5, "header": "", "tensors": [["a"]]}})",
        R"({"model.safetensors": {"bytes": 5, "header": "", "tensors": 7}})"}) {
    EXPECT_THROW(check_files(path_, parse_json(text, "test")), FormatError) << text;
  }
}

TEST(OwnChecksum, a_text_carries_its_own_and_every_change_is_found) {
  const std::string text = with_own_checksum({{"iter", 3}, {"crc32", "old"}, {"name", "x"}});
  EXPECT_EQ(parse_json(text, "test")["name"], "x");
  EXPECT_EQ(parse_json(text, "test").size(), 3u);
  EXPECT_NO_THROW(check_own_checksum(text, "test"));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 2);
    EXPECT_THROW(check_own_checksum(changed, "test"), FormatError) << at;
    EXPECT_THROW(check_own_checksum(text.substr(0, at), "test"), FormatError) << at;
  }
}

}  // namespace
}  // namespace prenorm
