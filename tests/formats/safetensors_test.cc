#include "prenorm/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "prenorm/base/error.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A file: the header's length, the header, `data` bytes.
std::string file_of(const std::string& header, std::size_t data = 0) {
  std::string out(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  return out + header + std::string(data, '\x01');
}

std::string length_of(std::uint64_t length) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out;
}

// One F32 tensor of two elements as a header's entry.
std::string entry(const std::string& name, const std::string& begin, const std::string& end) {
  return "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" + begin + "," +
         end + "]}";
}

struct Malformed {
  const char* name;
  std::string bytes;
  const char* says;  // a part of the message
};

std::vector<Malformed> malformed_files() {
  const std::string a = entry("a", "0", "8");
  const auto with = [](const std::string& fields, std::size_t data) {
    return file_of("{\"a\":{" + fields + "}}", data);
  };
  return {
      {"an empty file", "", "an empty file"},
      {"seven bytes", "\1\2\3\4\5\6\7", "the file is incomplete"},
      {"a header length of 0", length_of(0), "the length 0 at byte 0"},
      {"a header length of 1", length_of(1) + "{", "the length 1"},
      {"a header length of 2^63", length_of(std::uint64_t{1} << 63) + "{}", "9223372036854775808"},
      {"a header length of 2^64 - 1", length_of(~std::uint64_t{0}) + "{}", "18446744073709551615"},
      {"a header length that wraps with its own 8 bytes", length_of(~std::uint64_t{0} - 7) + "{}",
       "18446744073709551608"},
      {"a header one byte above the limit", length_of(100'000'001) + "{}", "100000001"},
      {"a header longer than the file", length_of(3) + "{}", "expected at least 11 bytes"},
      {"a Git LFS pointer",
       "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 548105171\n",
       "Git LFS pointer"},
      {"a page of HTML", "<!DOCTYPE html><html><body>404</body></html>", "HTML"},
      {"a zip archive", std::string("PK\x03\x04") + std::string(40, 'x'), "zip archive"},
      {"a blank before the header", file_of(" {" + a + "}", 8), "begins with '{'"},
      {"a newline after the header", file_of("{" + a + "}\n", 8), "ends with '}'"},
      {"a NUL after the header", file_of("{" + a + "}" + std::string(1, '\0'), 8), "ends with '}'"},
      {"an array as header", file_of("[1,2,3]"), "begins with '{'"},
      {"a header that is not JSON", file_of("{\"a\":}"), "expected JSON"},
      {"two values as header", file_of("{}{}"), "expected JSON"},
      {"a header that is not UTF-8", file_of("{\"\x80\":{}}"), "expected JSON"},
      {"a tensor that is a number", file_of("{\"a\":5}"), "an object with dtype"},
      {"the same name twice", file_of("{" + a + "," + entry("a", "8", "16") + "}", 16),
       "'a' twice"},
      {"the same name twice, once escaped",
       file_of("{" + a + "," + entry("\\u0061", "8", "16") + "}", 16), "'a' twice"},
      {"the same field twice",
       with("\"dtype\":\"F32\",\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]", 8),
       "'dtype' twice"},
      {"an empty name", file_of("{" + entry("", "0", "8") + "}", 8), "an empty name"},
      {"NUL in a name", file_of("{" + entry("a\\u0000b", "0", "8") + "}", 8), "names without NUL"},
      {"no dtype", with("\"shape\":[2],\"data_offsets\":[0,8]", 8), "a string dtype"},
      {"a dtype that is a number", with("\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]", 8),
       "a string dtype"},
      {"an unknown dtype", with("\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]", 8),
       "'F33'"},
      {"no shape", with("\"dtype\":\"F32\",\"data_offsets\":[0,8]", 8), "an array shape"},
      {"no offsets", with("\"dtype\":\"F32\",\"shape\":[2]", 8), "two data_offsets"},
      {"three offsets", with("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]", 8),
       "two data_offsets"},
      {"an unknown field",
       with("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"strides\":[1]", 8),
       "'strides'"},
      {"a negative size", with("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]", 8), "-2"},
      {"a fractional size", with("\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]", 8),
       "2.0"},
      {"a size in quotes", with("\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]", 8),
       "\"2\""},
      {"a size of 2^63",
       with("\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,8]", 8),
       "9223372036854775808"},
      {"a shape whose product wraps to 2",
       with("\"dtype\":\"F32\",\"shape\":[2147483648,8589934593,2],\"data_offsets\":[0,8]", 8),
       "a shape whose bytes can be counted"},
      {"a shape whose bytes wrap to 8",
       with("\"dtype\":\"F32\",\"shape\":[4611686018427387906],\"data_offsets\":[0,8]", 8),
       "a shape whose bytes can be counted"},
      {"a shape larger than its bytes",
       with("\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,8]", 8),
       "expected 4000000 bytes for F32 [1000, 1000], found 8"},
      {"a shape smaller than its bytes",
       with("\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,8]", 8), "expected 4 bytes"},
      {"descending offsets", file_of("{" + entry("a", "8", "0") + "}", 8), "that ascend"},
      {"a negative offset", file_of("{" + entry("a", "-8", "0") + "}", 8), "-8"},
      {"a fractional offset", file_of("{" + entry("a", "0.5", "8.5") + "}", 8), "0.5"},
      {"an offset in exponents", file_of("{" + entry("a", "0", "8e0") + "}", 8), "8"},
      {"two tensors on the same bytes", file_of("{" + a + "," + entry("b", "0", "8") + "}", 8),
       "an overlap"},
      {"two tensors that overlap", file_of("{" + a + "," + entry("b", "4", "12") + "}", 12),
       "an overlap"},
      {"a hole between tensors", file_of("{" + a + "," + entry("b", "12", "20") + "}", 20),
       "a hole"},
      {"a hole before the first tensor", file_of("{" + entry("a", "4", "12") + "}", 12), "a hole"},
      {"bytes after the last tensor", file_of("{" + a + "}", 9), "bytes after the last tensor"},
      {"bytes without a tensor", file_of("{}", 1), "bytes after the last tensor"},
      {"data past the end of the file", file_of("{" + a + "}", 7), "the file is incomplete"},
      {"an empty tensor outside of the data",
       file_of("{" + a + ",\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[12,12]}}", 8),
       "a hole"},
      {"metadata that is a string", file_of("{\"__metadata__\":\"pt\"}"), "object of strings"},
      {"metadata with a number", file_of("{\"__metadata__\":{\"format\":1}}"), "metadata 'format'"},
      {"metadata twice", file_of("{\"__metadata__\":{},\"__metadata__\":{}}"), "twice"},
      {"deep nesting", file_of("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}"),
       "64 levels"},
  };
}

TEST(Safetensors, malformed_files_are_refused_with_what_is_wrong) {
  const std::vector<Malformed> table = malformed_files();
  EXPECT_GE(table.size(), 50u);
  for (const Malformed& m : table) {
    try {
      const Safetensors file(bytes_of(m.bytes), "x.safetensors");
      ADD_FAILURE() << m.name << ": accepted";
    } catch (const FormatError& error) {
      const std::string message = error.what();
      EXPECT_THAT(message, ::testing::StartsWith("x.safetensors: ")) << m.name;
      EXPECT_THAT(message, HasSubstr(m.says)) << m.name;
      EXPECT_THAT(message, HasSubstr("expected ")) << m.name;
      EXPECT_THAT(message, HasSubstr(", found ")) << m.name;
      EXPECT_LE(message.size(), 300u) << m.name;
      EXPECT_EQ(message.find('\n'), std::string::npos) << m.name;
    }
  }
}

// What the safetensors package (0.8.0) writes for these tensors.
std::string golden() {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"a.long\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
      "\"\xC3\xA9\\\"q\\\\\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[16,24]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[28,52]}} ";
  const std::int64_t integers[] = {7, -8};
  const double scalar = 2.5;
  const float floats[] = {0.5f, 1, 2, 3, 4, 5, 6};
  std::string out = length_of(0x108) + header;
  out.append(reinterpret_cast<const char*>(integers), sizeof integers);
  out.append(reinterpret_cast<const char*>(&scalar), sizeof scalar);
  out.append(reinterpret_cast<const char*>(floats), sizeof floats);
  return out;
}

struct Values {
  std::vector<float> b = {1, 2, 3, 4, 5, 6}, a = {0.5f};
  std::vector<Index> longs = {7, -8};
  std::vector<double> scalar = {2.5};

  std::vector<Tensor> tensors() const {
    return {tensor("b", {2, 3}, std::span<const float>(b)),
            tensor("a.long", {2}, std::span<const Index>(longs)),
            tensor("\xC3\xA9\"q\\", {}, std::span<const double>(scalar)),
            tensor("a", {1}, std::span<const float>(a))};
  }
};

TEST(Safetensors, writes_the_bytes_of_the_package) {
  EXPECT_EQ(serialize_safetensors(Values().tensors()), golden());
}

TEST(Safetensors, what_is_saved_reads_back) {
  const TemporaryFolder folder("safetensors");
  const auto path = folder.path() / "saved.safetensors";
  save_safetensors(path, Values().tensors(), {{"format", "pt"}, {"note", "a\nb"}});
  const Safetensors file(path);
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata(), (TensorMetadata{{"format", "pt"}, {"note", "a\nb"}}));
  const Tensor* b = file.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_THAT(b->shape, ElementsAre(2, 3));
  EXPECT_EQ(b->size(), 6);
  EXPECT_THAT(file.floats(*b), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file.integers(*file.find("a.long")), ElementsAre(7, -8));
  EXPECT_THAT(file.floats(*file.find("\xC3\xA9\"q\\")), ElementsAre(2.5f));
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, tensors_come_in_the_order_of_their_bytes_not_of_the_header) {
  const std::string bytes =
      file_of("{" + entry("b", "8", "16") + "," + entry("a", "0", "8") + "}", 16);
  const Safetensors file(bytes_of(bytes), "x");
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(file.find("b")->bytes.data(), bytes_of(bytes).last(8).data());
}

TEST(Safetensors, the_data_may_start_at_any_alignment) {
  for (std::size_t pad = 0; pad < 8; ++pad) {
    std::string bytes = file_of("{" + entry("a", "0", "8") + "}" + std::string(pad, ' '));
    const float values[] = {1.5f, -2.5f};
    bytes.append(reinterpret_cast<const char*>(values), sizeof values);
    const Safetensors file(bytes_of(bytes), "x");
    EXPECT_THAT(file.floats(file.tensors()[0]), ElementsAre(1.5f, -2.5f)) << pad;
  }
}

TEST(Safetensors, no_tensors_and_empty_tensors_are_fine) {
  EXPECT_TRUE(Safetensors(bytes_of(file_of("{}")), "x").tensors().empty());
  const std::string empty =
      file_of("{" + entry("a", "0", "8") +
                  ",\"z\":{\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[8,8]}}",
              8);
  const Safetensors file(bytes_of(empty), "x");
  EXPECT_EQ(file.find("z")->size(), 0);
  EXPECT_TRUE(file.floats(*file.find("z")).empty());
}

TEST(Safetensors, every_truncation_is_an_error) {
  const std::string whole = golden();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const std::string cut = whole.substr(0, n);
    EXPECT_THAT(([&] { Safetensors(bytes_of(cut), "x"); }),
                ThrowsMessage<FormatError>(
                    ::testing::AnyOf(HasSubstr("incomplete"), HasSubstr("an empty file"))))
        << n;
  }
}

TEST(Safetensors, every_flipped_bit_is_an_error_or_a_file_whose_tensors_fit) {
  const std::string whole = golden();
  int refused = 0, accepted = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    try {
      const Safetensors file(bytes_of(bytes), "x");
      std::size_t total = 0;
      for (const Tensor& t : file.tensors()) {
        EXPECT_EQ(t.bytes.size(), static_cast<std::size_t>(t.size()) * dtype_size(t.dtype));
        total += t.bytes.size();
      }
      EXPECT_EQ(total, 52u);
      ++accepted;
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 52 * 8);  // at least the bits of the data
}

TEST(Safetensors, a_header_of_many_tensors_is_read_quickly) {
  std::string header = "{";
  for (int i = 0; i < 15000; ++i) {
    header += (i > 0 ? "," : "") + ("\"" + std::to_string(i)) +
              "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  }
  const std::string bytes = file_of(header + "}");
  const auto start = std::chrono::steady_clock::now();
  const Safetensors file(bytes_of(bytes), "x");
  EXPECT_EQ(file.tensors().size(), 15000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Safetensors, reading_the_wrong_kind_of_numbers_names_the_tensor) {
  const std::string bytes = golden();
  const Safetensors file(bytes_of(bytes), "x.safetensors");
  EXPECT_THAT([&] { file.floats(*file.find("a.long")); },
              ThrowsMessage<FormatError>("x.safetensors: tensor 'a.long': expected dtype F32, F16, "
                                         "BF16 or F64, found I64"));
  EXPECT_THAT([&] { file.integers(*file.find("a")); },
              ThrowsMessage<FormatError>(
                  "x.safetensors: tensor 'a': expected an integer dtype, found F32"));
}

TEST(Safetensors, integers_of_every_width_keep_their_sign) {
  std::string bytes = file_of(
      "{\"i8\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"u8\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
      "\"i16\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[2,4]},"
      "\"u32\":{\"dtype\":\"U32\",\"shape\":[1],\"data_offsets\":[4,8]},"
      "\"u64\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[8,16]}}");
  bytes += std::string(16, '\xFF');
  const Safetensors file(bytes_of(bytes), "x");
  EXPECT_THAT(file.integers(*file.find("i8")), ElementsAre(-1));
  EXPECT_THAT(file.integers(*file.find("u8")), ElementsAre(255));
  EXPECT_THAT(file.integers(*file.find("i16")), ElementsAre(-1));
  EXPECT_THAT(file.integers(*file.find("u32")), ElementsAre(4294967295));
  EXPECT_THROW(file.integers(*file.find("u64")), FormatError);
}

TEST(Safetensors, the_writer_refuses_what_no_reader_takes) {
  const std::vector<float> two = {1, 2};
  const std::span<const float> values(two);
  EXPECT_THROW(serialize_safetensors({tensor("a", {3}, values)}), Error);
  EXPECT_THROW(serialize_safetensors({tensor("a", {-1, -2}, values)}), Error);
  EXPECT_THROW(serialize_safetensors({tensor("", {2}, values)}), Error);
  EXPECT_THROW(serialize_safetensors({tensor("__metadata__", {2}, values)}), Error);
  EXPECT_THROW(serialize_safetensors({tensor("a\x80", {2}, values)}), Error);
  EXPECT_THROW(serialize_safetensors({tensor("a", {2}, values), tensor("a", {2}, values)}), Error);
  const auto wrap = Index{1} << 62;
  EXPECT_THROW(serialize_safetensors({tensor("a", {wrap, wrap}, values)}), Error);
}

TEST(Safetensors, a_transposed_view_is_packed_in_its_logical_order) {
  const std::vector<float> matrix = {0, 1, 2, 3, 4, 5};  // [2, 3]
  const std::vector<Index> strides = {1, 3};
  const std::string bytes =
      serialize_safetensors({packed_tensor("t", {3, 2}, matrix.data(), strides)});
  const Safetensors file(bytes_of(bytes), "x");
  EXPECT_THAT(file.floats(*file.find("t")), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Safetensors, shapes_are_shown_like_lists) {
  EXPECT_EQ(shape_text(std::vector<Index>{}), "[]");
  EXPECT_EQ(shape_text(std::vector<Index>{2, 3}), "[2, 3]");
}

}  // namespace
}  // namespace prenorm
