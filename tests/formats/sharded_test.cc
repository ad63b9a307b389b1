#include "prenorm/formats/sharded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Sharded : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<float> one = {1}, two = {2, 3};
    save_safetensors(folder_ / "1.safetensors", {tensor("a", {1}, std::span(one))});
    save_safetensors(folder_ / "2.safetensors", {tensor("b", {2}, std::span(two))});
  }

  TensorFile read(const std::string& weight_map) {
    write_file_durably(folder_ / "index.json",
                       "{\"metadata\": {\"total_size\": 12}, "
                       "\"weight_map\": " +
                           weight_map + "}");
    return read_sharded(folder_ / "index.json");
  }
  void expect_refused(const std::string& weight_map, const std::string& expected,
                      const std::string& found) {
    EXPECT_THAT([&] { read(weight_map); },
                ThrowsMessage<FormatError>(
                    AllOf(HasSubstr("index.json: expected " + expected), HasSubstr(found))));
  }

  TemporaryFolder scratch_{"sharded"};
  const std::filesystem::path folder_ = scratch_.path();
};

TEST_F(Sharded, tensors_of_all_files_are_one_file) {
  const TensorFile file = read(R"({"b": "2.safetensors", "a": "1.safetensors"})");
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_THAT(file.doubles(*file.find("a")), ElementsAre(1));
  EXPECT_THAT(file.floats(*file.find("b")), ElementsAre(2, 3));
}

TEST_F(Sharded, an_index_that_disagrees_with_its_files_is_refused_with_all_tensors) {
  expect_refused(R"({"b": "1.safetensors", "a": "1.safetensors"})", "the tensors of its files",
                 "missing: b in 1.safetensors");
  expect_refused(R"({"a": "2.safetensors", "b": "1.safetensors"})", "the tensors",
                 "2 missing and 2 unexpected");
  expect_refused(R"({"c": "2.safetensors"})", "the tensors",
                 "missing: c in 2.safetensors\n  unexpected: b in 2.safetensors");
  EXPECT_THROW(read(R"({"a": "3.safetensors"})"), IoError);
}

TEST_F(Sharded, files_are_plain_names_in_the_folder) {
  for (const char* name :
       {"../1.safetensors", "/etc/passwd", "", ".", "..", "a\\\\b", "a\\u0000"}) {
    expect_refused("{\"a\": \"" + std::string(name) + "\"}", "plain file names", "found '");
  }
  expect_refused(R"({"a": 1})", "a file name for 'a'", "found 1");
  expect_refused("{}", "weight_map, an object", "found {}");
  expect_refused("[]", "weight_map, an object", "found []");
}

TEST_F(Sharded, a_link_may_not_lead_out_of_the_folder) {
  namespace fs = std::filesystem;
  fs::create_directory(folder_ / "inner");
  fs::create_symlink("../1.safetensors", folder_ / "inner" / "x.safetensors");
  fs::create_symlink("y", folder_ / "inner" / "z.safetensors");
  fs::copy(folder_ / "1.safetensors", folder_ / "inner" / "y");
  const auto index = folder_ / "inner" / "index.json";
  write_file_durably(index, R"({"weight_map": {"a": "x.safetensors"}})");
  EXPECT_THAT([&] { read_sharded(index); },
              ThrowsMessage<FormatError>(HasSubstr("'x.safetensors', a link that leads out")));
  write_file_durably(index, R"({"weight_map": {"a": "z.safetensors"}})");
  EXPECT_EQ(read_sharded(index).tensors().size(), 1u);
}

}  // namespace
}  // namespace prenorm
