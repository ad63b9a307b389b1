// Malformed safetensors files: the header's length, the header, its entries, the bytes behind it.
#include <utility>

#include "tests/formats/npy_bytes.h"
#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

class Table : public HostileTable {
 public:
  Table() : HostileTable("safetensors_", Opener::kTensors) {}

  void add(const std::string& name, const std::string& bytes, const std::string& expected) {
    add_file(name, "x.safetensors", bytes, expected);
  }
  // One tensor "a" with these fields.
  void entry(const std::string& name, const std::string& fields, const std::string& expected,
             const std::string& data = std::string(24, '\0')) {
    add(name, safetensors("{\"a\":{" + fields + "}}", data), expected);
  }
  void header(const std::string& name, const std::string& header, const std::string& expected) {
    add(name, safetensors(header), expected);
  }
};

std::string length(std::uint64_t n) { return little_endian(n); }

std::string fields(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"("dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets;
}

void add_lengths(Table& table) {
  table.add("empty", "", "an empty file");
  table.add("of_seven_bytes", "1234567", "at least 8 bytes");
  table.add("header_of_length_0", length(0) + "{}", "the length 0 at byte 0");
  table.add("header_of_length_1", length(1) + "{", "the length 1 at byte 0");
  table.add("header_of_length_2_to_the_63", length(1ull << 63) + "{}", "a header of 2 to");
  table.add("header_of_length_minus_1", length(~0ull) + "{}", "a header of 2 to");
  table.add("header_length_that_wraps_when_8_is_added", length(~0ull - 7) + "{}",
            "a header of 2 to");
  table.add("header_beyond_the_limit", length(100'000'001) + "{}", "a header of 2 to 100000000");
  table.add("header_beyond_the_file", length(100) + "{}", "the file is incomplete");
  table.add("that_is_a_git_lfs_pointer",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer");
  table.add("that_is_a_web_page", "<!DOCTYPE html><html></html>", "a page of HTML");
  table.add("that_is_json", R"({"error":"Invalid username or password."})", "found JSON");
  table.add("that_is_hdf5", "\x89HDF\r\n\x1A\n" + std::string(40, '\0'), "an HDF5 file");
  table.add("that_is_an_old_pickle", "\x80\x02}q" + std::string(40, '\0'), "a pickle");
  table.add("that_is_a_web_page_after_blank_lines", "\n\n  <html></html>", "a page of HTML");
  table.add("that_is_gguf", "GGUF\x03" + std::string(40, '\0'), "a GGUF file");
}

void add_headers(Table& table) {
  table.header("header_with_a_blank_first", " {}", "begins with '{'");
  table.header("header_that_is_a_list", "[{}]", "begins with '{'");
  table.header("header_with_a_newline_last", "{}\n", "ends with '}'");
  table.header("header_of_blanks", "{      ", "ends with '}'");
  table.header("two_headers", "{}{}", "expected JSON");
  table.header("header_hidden_behind_nul", std::string("{}\0{}", 5), "expected JSON");
  table.header("header_cut_off", R"({"a":{"dtype":"F32"})", "expected JSON");
  table.header("nesting_of_65", "{\"a\":" + std::string(65, '[') + std::string(65, ']') + "}",
               "at most 64 levels of nesting");
  table.header("nesting_of_500000", "{\"a\":" + std::string(500'000, '[') + "}",
               "at most 64 levels of nesting");
  table.header(
      "nesting_of_objects",
      [] {
        std::string deep;
        for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
        return deep + "}";
      }(),
      "at most 64 levels of nesting");
  table.header("not_utf8", "{\"\xC3\x28\":1}", "expected JSON");
  table.header("lone_surrogate", R"({"\ud800":1})", "expected JSON");
  table.header("a_number_that_overflows", R"({"a":1e999})", "a number out of range");
  table.header("name_twice",
               R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
               R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
               "'a' twice");
  table.header("name_twice_in_another_spelling", R"({"a":1,"\u0061":1})", "'a' twice");
  table.header("metadata_twice", R"({"__metadata__":{},"__metadata__":{}})", "twice");
  table.header("metadata_that_is_a_list", R"({"__metadata__":[]})", "__metadata__ as an object");
  table.header("metadata_with_a_number", R"({"__metadata__":{"n":1}})", "a string as metadata");
  table.header("name_empty", R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
               "an empty name");
  table.header("name_with_nul", R"({"a\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
               "names without NUL");
  table.header("tensor_that_is_a_list", R"({"a":[]})", "an object with dtype");
}

void add_entries(Table& table) {
  table.entry("field_unknown", fields("\"F32\"", "[2,3]", "[0,24]") + ",\"x\":1", "'x'");
  table.entry("field_twice", fields("\"F32\"", "[2,3]", "[0,24]") + ",\"dtype\":\"F32\"",
              "'dtype' twice");
  table.entry("without_dtype", R"("shape":[2,3],"data_offsets":[0,24])", "a string dtype");
  table.entry("without_shape", R"("dtype":"F32","data_offsets":[0,24])", "an array shape");
  table.entry("without_offsets", R"("dtype":"F32","shape":[2,3])", "two data_offsets");
  table.entry("dtype_unknown", fields("\"F31\"", "[2,3]", "[0,24]"), "a known dtype");
  table.entry("dtype_that_is_a_number", fields("32", "[2,3]", "[0,24]"), "a string dtype");
  table.entry("dimension_negative", fields("\"F32\"", "[-1,6]", "[0,24]"), "whole numbers from 0");
  table.entry("dimension_fractional", fields("\"F32\"", "[1.5,4]", "[0,24]"),
              "whole numbers from 0");
  table.entry("dimension_text", fields("\"F32\"", "[\"6\"]", "[0,24]"), "whole numbers from 0");
  table.entry("dimension_2_to_the_63", fields("\"U8\"", "[9223372036854775808]", "[0,24]"),
              "whole numbers from 0");
  table.entry("dimension_2_to_the_64", fields("\"U8\"", "[18446744073709551616]", "[0,24]"),
              "whole numbers from 0");
  table.entry("shape_whose_product_wraps_to_0",
              fields("\"F32\"", "[4294967296,4294967296]", "[0,0]"), "can be counted", "");
  table.entry("shape_whose_bytes_wrap_to_0", fields("\"F32\"", "[4611686018427387904]", "[0,0]"),
              "can be counted", "");
  table.entry("shape_whose_bytes_wrap_to_24", fields("\"F64\"", "[2305843009213693955]", "[0,24]"),
              "can be counted");
  table.entry("shape_that_wraps_before_its_zero",
              fields("\"F32\"", "[4294967296,4294967296,0]", "[0,0]"), "can be counted", "");
  table.entry("shape_of_65_axes",
              fields(
                  "\"U8\"",
                  [] {
                    std::string ones = "[1";
                    for (int i = 0; i < 64; ++i) ones += ",1";
                    return ones + "]";
                  }(),
                  "[0,1]"),
              "at most 64 axes", "x");
  table.entry("shape_of_another_size", fields("\"F32\"", "[2,2]", "[0,24]"),
              "16 bytes for F32 [2, 2]");
  table.entry("offsets_that_descend", fields("\"F32\"", "[2,3]", "[24,0]"), "that ascend");
  table.entry("offsets_of_three_numbers", fields("\"F32\"", "[2,3]", "[0,24,24]"),
              "two data_offsets");
  table.entry("offsets_as_text", fields("\"F32\"", "[2,3]", "[\"0\",\"24\"]"),
              "whole numbers from 0 in data_offsets");
  table.entry("offsets_negative", fields("\"F32\"", "[2,3]", "[-24,0]"),
              "whole numbers from 0 in data_offsets");
  table.entry("offsets_near_2_to_the_63",
              fields("\"U8\"", "[1]", "[9223372036854775806,9223372036854775807]"), "a hole");
  table.entry("data_past_the_end", fields("\"F32\"", "[2,3]", "[0,24]"), "the file is incomplete",
              std::string(23, '\0'));
  table.entry("data_missing", fields("\"F32\"", "[2,3]", "[0,24]"), "the file is incomplete", "");
  table.entry("data_of_an_exabyte",
              fields("\"U8\"", "[1152921504606846976]", "[0,1152921504606846976]"),
              "the file is incomplete");
  table.entry("trailing_byte", fields("\"F32\"", "[2,3]", "[0,24]"), "bytes after the last tensor",
              std::string(25, '\0'));
  table.entry("hole_at_the_beginning", fields("\"F32\"", "[2,3]", "[8,32]"), "a hole",
              std::string(32, '\0'));
}

void add_ranges(Table& table) {
  const auto two = [&](const std::string& name, const std::string& first, const std::string& second,
                       const std::string& expected) {
    table.add(name,
              safetensors("{\"a\":{" + fields("\"F32\"", "[2]", first) + "},\"b\":{" +
                              fields("\"F32\"", "[2]", second) + "}}",
                          std::string(16, '\0')),
              expected);
  };
  two("tensors_that_overlap", "[0,8]", "[4,12]", "an overlap");
  two("tensors_of_the_same_bytes", "[0,8]", "[0,8]", "an overlap");
  two("hole_between_tensors", "[0,8]", "[12,20]", "a hole");
  two("second_tensor_past_the_end", "[0,8]", "[16,24]", "a hole");
}

}  // namespace

std::vector<HostileFile> safetensors_files() {
  Table table;
  add_lengths(table);
  add_headers(table);
  add_entries(table);
  add_ranges(table);
  return table.take();
}

}  // namespace prenorm::hostile
