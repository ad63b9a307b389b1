#include "prenorm/formats/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "tests/formats/npy_bytes.h"

namespace prenorm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Npz parse(const std::string& file) { return Npz(std::as_bytes(std::span(file)), "a.npz"); }

std::string array(const std::string& text) {
  return npy_file("|u1", false, "(" + std::to_string(text.size()) + ",)", text);
}

std::string text_of(const Tensor& t) {
  return {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()};
}

void expect_refused(const std::string& file, const std::string& expected,
                    const std::string& found) {
  EXPECT_THAT([&] { parse(file); }, ThrowsMessage<FormatError>(
                                        AllOf(HasSubstr("a.npz"), HasSubstr("expected " + expected),
                                              HasSubstr("found " + found), HasSubstr("at byte"))));
}

TEST(Npz, stored_and_deflated_arrays_in_the_order_of_the_directory) {
  for (const bool deflated : {false, true}) {
    for (const bool wide : {false, true}) {
      const std::string file = zip_file({{"b.npy", array("second"), deflated, wide},
                                         {"a.bias.npy", array("first"), deflated, wide}},
                                        "a comment");
      const Npz npz = parse(file);
      ASSERT_EQ(npz.tensors().size(), 2u);
      EXPECT_EQ(npz.tensors()[0].name, "b");
      EXPECT_EQ(text_of(npz.tensors()[0]), "second");
      EXPECT_EQ(npz.tensors()[1].name, "a.bias");
      EXPECT_EQ(text_of(npz.tensors()[1]), "first");
    }
  }
  EXPECT_TRUE(parse(zip_file({})).tensors().empty());
}

TEST(Npz, damage_is_refused_with_its_place) {
  const ZipMember good{"x.npy", array("text")};
  const auto changed = [&](const auto& change) {
    ZipMember m = good;
    change(m);
    return zip_file({m});
  };
  using M = ZipMember;
  expect_refused("PK", "a zip archive of at least 22 bytes", "2 bytes");
  expect_refused(zip_file({good}) + "tail", "a zip archive with its end record", "none");
  expect_refused(changed([](M& m) { m.checksum ^= 1; }), "'x.npy' with the checksum", "another");
  expect_refused(changed([](M& m) { m.flags = 1; }), "members that are not encrypted", "an encr");
  expect_refused(changed([](M& m) { m.method = 12; }), "a member that is stored or deflated",
                 "method 12");
  expect_refused(changed([](M& m) { m.local_name = "y.npy"; }), "the header of 'x.npy'",
                 "that of 'y.npy'");
  expect_refused(changed([](M& m) { m.name = m.local_name = "x.txt"; }), "members named NAME.npy",
                 "'x.txt'");
  expect_refused(changed([](M& m) { m.name = m.local_name = "\xFF.npy"; }),
                 "members named NAME.npy", "");
  expect_refused(changed([](M& m) { m.moved = 1; }), "the header of 'x.npy'", "other bytes");
  expect_refused(changed([](M& m) { m.moved = 1 << 20; }), "30 bytes of a member's header",
                 "the end of the file");
  expect_refused(changed([](M& m) { m.claimed += 1; }), "a stored member of one size", "");
  expect_refused(changed([](M& m) { m.deflated = true, m.method = 8, m.claimed += 1; }),
                 "'x.npy' as a deflated stream", "another");
  expect_refused(changed([](M& m) { m.deflated = true, m.method = 8, m.claimed -= 1; }),
                 "'x.npy' as a deflated stream", "another");
  expect_refused(zip_file({good, good}), "each name once", "'x.npy' twice");
  expect_refused(changed([](M& m) {
                   m.data = "not npy", m.checksum = crc32_of(m.data), m.claimed = m.data.size();
                 }),
                 "an array that begins", "'not np'");
}

// Both members claim the same bytes; a small archive could so become large.
TEST(Npz, members_that_overlap_are_refused) {
  ZipMember first{"x.npy", array("text")}, second = first;
  const std::string one = zip_file({first});
  const auto size = static_cast<std::int64_t>(30 + first.name.size() + first.data.size());
  second.name = "y.npy";
  second.local_name = "y.npy";
  second.moved = -size;
  expect_refused(zip_file({first, second}), "the header of 'y.npy'", "that of 'x.npy'");
  second = first;
  second.name = second.local_name = "y.npy";
  first.data += zip_file({second}).substr(0, static_cast<std::size_t>(size));
  first.checksum = crc32_of(first.data);
  first.claimed = first.data.size();
  second.moved = -size;  // inside the first member's data
  expect_refused(zip_file({first, second}), "members that do not overlap", "an overlap");
}

TEST(Npz, an_archive_that_would_inflate_beyond_its_limit_is_refused_before_it_is) {
  ZipMember bomb{"x.npy", array("text"), true};
  bomb.claimed = std::uint64_t{1} << 28;
  expect_refused(zip_file({bomb}), "at most", "268435456");
  bomb.wide = true;
  bomb.claimed = ~std::uint64_t{0};
  ZipMember second = bomb;  // together they wrap 64 bits
  second.name = second.local_name = "y.npy";
  bomb.claimed = 2;
  expect_refused(zip_file({bomb, second}), "at most", "18446744073709551615");
}

TEST(Npz, an_archive_cut_or_changed_anywhere_never_crashes) {
  const std::string file = zip_file({{"b.npy", array("second"), true, true},
                                     {"a.npy", array("first"), false, true},
                                     {"c.npy", array("third"), true, false}});
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW(parse(file.substr(0, size)), FormatError) << size;
  }
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const char c : {'\0', '\x7F', '\xFF'}) {
      std::string damaged = file;
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
