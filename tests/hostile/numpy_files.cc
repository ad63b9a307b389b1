// Malformed .npy files, .npz archives, and zip archives of either.
#include <zlib.h>

#include <utility>

#include "tests/formats/npy_bytes.h"
#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

class Table : public HostileTable {
 public:
  Table() : HostileTable("", Opener::kTensors) {}

  void npy(const std::string& name, const std::string& bytes, const std::string& expected) {
    add_file("npy_" + name, "x.npy", bytes, expected);
  }
  // With this header.
  void header(const std::string& name, const std::string& header, const std::string& expected) {
    npy(name, npy_with_header(header, std::string(24, '\0')), expected);
  }
  void shape(const std::string& name, const std::string& shape, const std::string& expected) {
    npy(name, npy_file("<f4", false, shape, std::string(24, '\0')), expected);
  }
  void npz(const std::string& name, const std::string& bytes, const std::string& expected) {
    add_file("npz_" + name, "x.npz", bytes, expected);
  }
  void member(const std::string& name, const ZipMember& member, const std::string& expected) {
    npz(name, zip_file({member}), expected);
  }
};

void add_arrays(Table& table) {
  const std::string good = npy_file("<f4", false, "(2, 3)", std::string(24, '\0'));
  table.npy("empty", "", "no bytes");
  table.npy("of_its_magic_alone", "\x93NUMPY", "at least 8 bytes");
  table.npy("without_its_length", good.substr(0, 9), "at least 10 bytes");
  table.npy("version_9", std::string("\x93NUMPY\x09\0\x02\0{}", 12), "format version 1.0");
  table.npy("version_1_5", std::string("\x93NUMPY\x01\x05\x02\0{}", 12), "format version 1.0");
  table.npy("header_beyond_the_file", std::string("\x93NUMPY\x01\0\xFF\xFF{", 11),
            "at least 65545 bytes");
  table.npy("header_of_4_GiB", std::string("\x93NUMPY\x02\0\xFF\xFF\xFF\xFF{", 13),
            "at least 4294967307 bytes");
  table.npy("data_cut_off", good.substr(0, good.size() - 1), "24 bytes for F32 [2, 3]");
  table.npy("bytes_behind_the_array", good + "x", "24 bytes for F32 [2, 3]");
  table.header("header_that_is_a_list", "['descr']", "'{'");
  table.header("header_empty", "", "'{'");
  table.header("header_without_shape", "{'descr': '<f4', 'fortran_order': False}",
               "a header with shape");
  table.header("key_twice", "{'descr': '<f4', 'descr': '<f4'}", "each key once");
  table.header("key_unknown", "{'descr': '<f4', 'order': 'C'}", "a key of descr");
  table.header("header_with_code", "{'descr': __import__('os').system('id')}", "a string");
  table.header("string_without_end", "{'descr': '<f4", "a string that ends");
  table.header("string_with_an_escape", "{'descr': '\\x3cf4'}", "a string without escapes");
  table.header("order_neither_true_nor_false",
               "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (6,)}", "True or False");
  table.header("text_behind_the_header",
               "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x",
               "the end of the header");
  for (const auto& [name, descr, expected] :
       {std::tuple("pickled_objects", "|O", "numbers or bool"),
        std::tuple("big_endian_numbers", ">f4", "little-endian"),
        std::tuple("text", "<U4", "numbers or bool"), std::tuple("dates", "<M8[s]", "numbers"),
        std::tuple("numbers_of_16_bytes", "<f16", "numbers or bool")}) {
    table.npy(name, npy_file(descr, false, "(6,)", std::string(24, '\0')), expected);
  }
  table.header("structures", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}",
               "a string");
  table.shape("dimension_negative", "(-1, 6)", "a whole number");
  table.shape("dimension_2_to_the_64", "(18446744073709551616,)", "below 2^63");
  table.shape("shape_whose_product_wraps", "(4294967296, 4294967296)", "can be counted");
  table.shape("shape_whose_bytes_wrap", "(4611686018427387910,)", "can be counted");
  table.shape(
      "shape_of_65_axes",
      "(" +
          [] {
            std::string ones;
            for (int i = 0; i < 65; ++i) ones += "1,";
            return ones;
          }() +
          ")",
      "at most 64 axes");
  table.shape("tuple_without_comma", "(6)", "','");
  table.shape("shape_that_is_a_number", "6", "'('");
  table.npy("fortran_array_of_an_exabyte", npy_file("|u1", true, "(1073741824, 1073741824)", "x"),
            "1152921504606846976 bytes");
}

std::string deflated(const std::string& data) {
  std::string out(compressBound(data.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// An archive of one member with a real deflate stream, which says that it has `claimed` bytes.
std::string really_deflated(const std::string& name, const std::string& data,
                            std::uint64_t claimed) {
  const std::string packed = deflated(data);
  // A stored member is written and its method and size when unpacked are changed in both places.
  ZipMember member{name, packed};
  member.checksum = crc32_of(data);
  member.claimed = claimed;
  member.method = 8;
  return zip_file({member});
}

void add_archives(Table& table) {
  const std::string array = npy_file("<f4", false, "(1,)", std::string(4, '\0'));
  const std::string good = zip_file({{"a.npy", array}});
  const std::size_t end = good.size() - 22;  // of the last record
  const auto changed = [&](std::size_t at, const std::string& bytes) {
    std::string out = good;
    return out.replace(at, bytes.size(), bytes);
  };
  table.npz("empty", "", "a zip archive of at least 22 bytes");
  table.npz("without_an_end_record", good.substr(0, end), "its end record");
  table.npz("bytes_behind_the_end", good + "x", "its end record");
  table.npz("of_several_disks", changed(end + 4, "\x01"), "an archive of one file");
  table.npz("more_members_than_fit", changed(end + 10, "\xFE\xFF"), "at most 1 members");
  table.npz("fewer_members_than_there_are", changed(end + 10, std::string(2, '\0')),
            "the end of the directory");
  table.npz("directory_beyond_the_file", changed(end + 16, "\xF0\xFF\xFF\xFF"),
            "bytes of the directory");
  table.npz("directory_that_reaches_into_the_end", changed(end + 12, little_endian(60u)),
            "before the end record");
  table.npz("two_archives_in_one", good + good, "where the end record begins");
  table.npz("bytes_behind_the_directory", good.substr(0, end) + "x" + good.substr(end),
            "where the end record begins");
  table.npz("zip64_without_locator", changed(end + 16, "\xFF\xFF\xFF\xFF"), "a ZIP64 locator");
  const std::string locator =
      "PK\x06\x07" + std::string(4, '\0') + little_endian(~0ull - 3) + little_endian(1u);
  table.npz("zip64_record_near_2_to_the_64",
            good.substr(0, end) + locator + changed(end + 16, "\xFF\xFF\xFF\xFF").substr(end),
            "the ZIP64 end record");
  table.member("encrypted_member", {.name = "a.npy", .data = array, .flags = 1}, "not encrypted");
  table.member("method_99", {.name = "a.npy", .data = array, .method = 99}, "method 99");
  table.member("stored_member_of_two_sizes",
               {.name = "a.npy", .data = array, .claimed = array.size() + 1}, "of one size");
  table.member("local_header_of_another_name",
               {.name = "a.npy", .data = array, .local_name = "b.npy"}, "as the directory says");
  table.member("local_header_beyond_the_file", {.name = "a.npy", .data = array, .moved = 1'000'000},
               "a member's header");
  table.member("local_header_elsewhere", {.name = "a.npy", .data = array, .moved = 1},
               "other bytes");
  table.npz(
      "members_that_overlap",
      [&] {
        ZipMember second{"b.npy", array};
        const std::string inner = zip_file({second});
        ZipMember first{"a.npy", inner.substr(0, inner.find("PK\x01\x02"))};
        const std::string outer = zip_file({first});
        // The directory names the member inside of the other's bytes too.
        const std::string hidden = zip_file({first, second});
        std::string all =
            outer.substr(0, outer.find("PK\x01\x02")) + hidden.substr(hidden.find("PK\x01\x02"));
        const auto begin = static_cast<std::uint32_t>(outer.find("PK\x01\x02"));
        const std::size_t last = all.size() - 22;
        all.replace(last + 16, 4, little_endian(begin));
        const std::size_t entry = all.rfind("PK\x01\x02");
        all.replace(entry + 42, 4, little_endian(std::uint32_t{30 + 5}));
        return all;
      }(),
      "members that do not overlap");
  table.npz("name_twice", zip_file({{"a.npy", array}, {"a.npy", array}}), "'a.npy' twice");
  ZipMember wrong{"a.npy", array};
  wrong.checksum ^= 1;
  table.member("checksum_wrong", wrong, "the checksum");
  table.member("deflated_garbage", {.name = "a.npy", .data = "\xFF\xFF\xFF", .method = 8},
               "a deflated stream");
  table.npz("deflated_to_less_than_it_says", really_deflated("a.npy", array, array.size() + 9),
            "a deflated stream");
  table.npz("deflated_to_more_than_it_says", really_deflated("a.npy", array, array.size() - 9),
            "a deflated stream");
  table.npz("bomb_that_says_so", really_deflated("a.npy", std::string(40 << 20, '\0'), 40 << 20),
            "bytes when inflated");
  table.npz("bomb_that_hides_it", really_deflated("a.npy", std::string(40 << 20, '\0'), 1 << 20),
            "a deflated stream");
  ZipMember exabytes{"a.npy", array, true, true};
  exabytes.claimed = 1ull << 62;
  table.npz("sizes_whose_sum_wraps",
            zip_file({exabytes,
                      [&] {
                        ZipMember other = exabytes;
                        other.name = other.local_name = "b.npy";
                        other.claimed = ~0ull - (1ull << 62) + 9;
                        return other;
                      }()}),
            "bytes when inflated");
  table.npz("member_of_another_kind", zip_file({{"a.txt", "x"}}), "members named NAME.npy");
  table.npz("member_without_a_name", zip_file({{".npy", array}}), "members named NAME.npy");
  table.npz("name_with_nul", zip_file({{std::string("a\0b.npy", 7), array}}),
            "members named NAME.npy");
  table.npz("name_not_utf8", zip_file({{"\xC3\x28.npy", array}}), "members named NAME.npy");
  table.npz("member_that_is_no_array", zip_file({{"a.npy", "x"}}), "begins with \\x93NUMPY");
  table.npz("member_of_pickled_objects",
            zip_file({{"a.npy", npy_file("|O", false, "(1,)", "cos\nsystem\n")}}),
            "numbers or bool");
}

}  // namespace

std::vector<HostileFile> numpy_files() {
  Table table;
  add_arrays(table);
  add_archives(table);
  return table.take();
}

}  // namespace prenorm::hostile
