#include "prenorm/formats/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "prenorm/base/error.h"
#include "tests/formats/npy_bytes.h"

namespace prenorm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor parse(const std::string& file) { return parse_npy(std::as_bytes(std::span(file)), "a.npy"); }

void expect_refused(const std::string& file, const std::string& expected,
                    const std::string& found) {
  EXPECT_THAT([&] { parse(file); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("a.npy: expected " + expected),
                                               HasSubstr("found " + found), HasSubstr("at byte"))));
}

TEST(Npy, every_type_keeps_its_shape_and_bytes) {
  const std::pair<const char*, Dtype> types[] = {
      {"|b1", Dtype::kBool}, {"|u1", Dtype::kU8},  {"|i1", Dtype::kI8},  {"<u2", Dtype::kU16},
      {"<i2", Dtype::kI16},  {"<u4", Dtype::kU32}, {"<i4", Dtype::kI32}, {"<u8", Dtype::kU64},
      {"<i8", Dtype::kI64},  {"<f2", Dtype::kF16}, {"<f4", Dtype::kF32}, {"<f8", Dtype::kF64},
      {"<c8", Dtype::kC64}};
  for (const auto& [descr, dtype] : types) {
    const std::string data(6 * dtype_size(dtype), '\x2A');
    const std::string file = npy_file(descr, false, "(2, 3)", data);
    const Tensor t = parse(file);
    EXPECT_EQ(t.dtype, dtype) << descr;
    EXPECT_EQ(t.shape, (std::vector<Index>{2, 3})) << descr;
    EXPECT_EQ(std::memcmp(t.bytes.data(), data.data(), data.size()), 0) << descr;
    EXPECT_EQ(t.owner, nullptr) << descr;
  }
}

TEST(Npy, versions_scalars_vectors_and_empty_arrays) {
  for (const int version : {1, 2, 3}) {
    const std::string file = npy_file("<i8", false, "(1,)", std::string(8, '\1'), version);
    EXPECT_EQ(parse(file).shape, std::vector<Index>{1});
  }
  EXPECT_EQ(parse(npy_file("<f4", false, "()", std::string(4, '\0'))).shape, std::vector<Index>());
  EXPECT_EQ(parse(npy_file("<f4", true, "(3, 0, 2)", "")).shape, (std::vector<Index>{3, 0, 2}));
  EXPECT_THAT([] { parse(npy_file("<f4", false, "(1,)", "1234", 4)); },
              ThrowsMessage<FormatError>(HasSubstr("4.0 at byte 6")));
}

TEST(Npy, fortran_order_is_read_in_rows) {
  // [2, 3, 2] whose element (i, j, k) is the byte 100 i + 10 j + k, first axis fastest.
  std::string data;
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) data += static_cast<char>(100 * i + 10 * j + k);
    }
  }
  const Tensor t = parse(npy_file("|u1", true, "(2, 3, 2)", data));
  std::vector<int> found;
  for (const std::byte b : t.bytes) found.push_back(std::to_integer<int>(b));
  EXPECT_EQ(found, (std::vector<int>{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121}));
  EXPECT_NE(t.owner, nullptr);
}

TEST(Npy, what_is_not_an_array_of_numbers_is_refused) {
  expect_refused("", "an array that begins with \\x93NUMPY", "no bytes");
  expect_refused("PK\x03\x04", "an array that begins", "'PK");
  expect_refused(npy_file(">f4", false, "(1,)", "1234"), "little-endian numbers", "'>f4'");
  expect_refused(npy_file("|O", false, "(1,)", "1234"), "an array of numbers", "'|O'");
  expect_refused(npy_file("<U1", false, "(1,)", "1234"), "an array of numbers", "'<U1'");
  expect_refused(npy_file("<f4", false, "(2,)", "1234"), "8 bytes for F32 [2]", "4");
  expect_refused(npy_file("<f4", false, "(1,)", "12345"), "4 bytes for F32 [1]", "5");
  expect_refused(npy_file("<f4", false, "(4611686018427387904, 4)", ""), "a shape whose bytes",
                 "[");
  expect_refused(npy_file("<f4", false, "(9223372036854775808,)", ""), "a dimension below",
                 "'9223");
  expect_refused(npy_file("<f4", false, "(3)", "123456789012"), "','", "')'");
  expect_refused(npy_file("<f4", false, "(-1,)", ""), "a whole number", "'-'");
  expect_refused(npy_with_header("{'descr': '<f4', 'shape': (1,)}", "1234"),
                 "a header with fortran_order", "'none'");
  expect_refused(npy_with_header("{'descr': '<f4', 'descr': '<f4'}", ""), "each key once",
                 "'descr");
  expect_refused(npy_with_header("{'other': 1}", ""), "a key of descr", "'other'");
  expect_refused(npy_with_header("{'shape': (1,), 'fortran_order': 0}", ""), "True or False",
                 "'0'");
}

TEST(Npy, a_file_cut_anywhere_is_refused) {
  const std::string file = npy_file("<f4", true, "(2, 3)", std::string(24, 'x'));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW(parse(file.substr(0, size)), FormatError) << size;
  }
  for (std::size_t at = 0; at < file.size() - 24; ++at) {  // no byte of the header may crash it
    std::string damaged = file;
    for (const char c : {'\0', '\xFF', '9', '('}) {
      damaged[at] = c;
      try {
        parse(damaged);
      } catch (const FormatError&) {
      }
    }
  }
}

}  // namespace
}  // namespace prenorm
