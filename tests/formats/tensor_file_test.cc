#include "prenorm/formats/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "prenorm/base/error.h"
#include "tests/formats/npy_bytes.h"
#include "tests/memory_file.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kArray = npy_file("<f4", false, "(1,)", little_endian(2.5f));

TensorFile read(const std::string& name, const std::string& bytes) {
  const TemporaryFolder folder("tensor-file");
  std::ofstream(folder.path() / name, std::ios::binary) << bytes;
  return read_tensors(folder.path() / name);  // outlives the file
}

TEST(TensorFile, every_format_is_known_by_its_bytes_or_its_extension) {
  const std::vector<float> x{2.5f};
  const std::string safetensors = serialize_safetensors({tensor("input", {1}, std::span(x))});
  const std::string npz = zip_file({{"input.npy", kArray}});
  for (const auto& [name, bytes] : {std::pair("x.safetensors", safetensors),
                                    {"x", safetensors},
                                    {"x.npz", npz},
                                    {"x", npz},
                                    {"x.safetensors", npz},
                                    {"input.npy", kArray},
                                    {"input", kArray}}) {
    const TensorFile file = read(name, bytes);
    ASSERT_NE(file.find("input"), nullptr) << name;
    EXPECT_EQ(file.doubles(*file.find("input")), std::vector<double>{2.5}) << name;
    EXPECT_EQ(file.find("other"), nullptr);
  }
  EXPECT_THAT([] { read("x.npz", ""); }, ThrowsMessage<FormatError>(HasSubstr("a zip archive")));
  EXPECT_THAT([] { read("x", ""); }, ThrowsMessage<FormatError>(HasSubstr("an empty file")));
  EXPECT_THROW(read_tensors("nowhere/x.npz"), IoError);
}

TEST(TensorFile, types_that_do_not_fit_name_file_and_tensor) {
  const TensorFile file = MemoryFile("X").bools("mask", {1}, {1}).file();
  EXPECT_THAT([&] { file.doubles(*file.find("mask")); },
              ThrowsMessage<FormatError>(
                  "X: tensor 'mask': expected dtype F32, F16, BF16 or F64, found BOOL"));
  EXPECT_THAT(
      [&] { file.integers(*file.find("mask")); },
      ThrowsMessage<FormatError>("X: tensor 'mask': expected an integer dtype, found BOOL"));
  const TensorFile ids = MemoryFile("X").integers("ids", {2}, {-5, 7}).file();
  EXPECT_EQ(ids.integers(ids.tensors().front()), (std::vector<Index>{-5, 7}));
}

}  // namespace
}  // namespace prenorm
