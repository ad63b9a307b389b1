#include "prenorm/formats/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "tests/formats/npy_bytes.h"

namespace prenorm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ZipArchive, members_come_in_the_order_of_the_directory_stored_or_deflated) {
  for (const bool wide : {false, true}) {
    const std::string file =
        zip_file({{"a/data.pkl", "first", false, wide}, {"b", "second", true, wide}});
    const ZipArchive archive(bytes_of(file), "a.pt");
    ASSERT_EQ(archive.entries().size(), 2u);
    EXPECT_EQ(archive.entries()[0].name, "a/data.pkl");
    EXPECT_FALSE(archive.entries()[0].deflated);
    EXPECT_TRUE(archive.entries()[1].deflated);
    EXPECT_EQ(text_of(archive.read(archive.entries()[0]).bytes), "first");
    EXPECT_EQ(archive.read(archive.entries()[0]).owner, nullptr);
    EXPECT_EQ(text_of(archive.read(archive.entries()[1]).bytes), "second");
    EXPECT_NE(archive.read(archive.entries()[1]).owner, nullptr);
  }
}

TEST(ZipArchive, a_name_twice_and_a_wrong_checksum_are_refused) {
  const std::string twice = zip_file({{"a", "1"}, {"a", "2"}});
  EXPECT_THAT([&] { ZipArchive(bytes_of(twice), "z"); },
              ThrowsMessage<FormatError>(
                  AllOf(HasSubstr("z: expected each name once"), HasSubstr("'a' twice at byte"))));
  ZipMember wrong{"a", "1"};
  wrong.checksum ^= 1;
  const std::string damaged = zip_file({wrong});
  const ZipArchive archive(bytes_of(damaged), "z");
  EXPECT_THROW(static_cast<void>(archive.read(archive.entries()[0])), FormatError);
}

// Python's zipfile counts offsets from where the directory would begin without the gap.
TEST(ZipArchive, a_gap_between_the_directory_and_the_end_record_is_refused) {
  const std::string file = zip_file({{"a", "1"}});
  const auto refused =
      ThrowsMessage<FormatError>(HasSubstr("a directory that ends where the end record begins"));
  EXPECT_THAT([&] { ZipArchive(bytes_of(file + file), "z"); }, refused);
  std::string gap = file;
  gap.insert(gap.size() - 22, "x");
  EXPECT_THAT([&] { ZipArchive(bytes_of(gap), "z"); }, refused);
}

TEST(ZipArchive, end_records_that_contradict_each_other_are_refused) {
  const std::string file = zip_file({{"a", "1"}});
  const std::size_t end = file.size() - 22;
  const auto with_wide = [&](std::uint64_t members) {
    std::string wide = "PK\x06\x06" + little_endian(std::uint64_t{44}) + std::string(12, '\0');
    for (const std::uint64_t n :
         {members, members, end - file.find("PK\x01\x02"), file.find("PK\x01\x02")}) {
      wide += little_endian(n);
    }
    const std::string locator =
        "PK\x06\x07" + std::string(4, '\0') + little_endian(std::uint64_t{end}) + little_endian(1u);
    return file.substr(0, end) + wide + locator + file.substr(end);
  };
  const std::string good = with_wide(1), bad = with_wide(2);
  EXPECT_EQ(ZipArchive(bytes_of(good), "z").entries().size(), 1u);
  EXPECT_THAT([&] { ZipArchive(bytes_of(bad), "z"); },
              ThrowsMessage<FormatError>(HasSubstr("end records that say the same")));
}

TEST(ZipArchive, what_is_no_archive_is_named) {
  EXPECT_THAT([] { ZipArchive(bytes_of("version https://git-lfs.github.com/spec/v1\n"), "w.bin"); },
              ThrowsMessage<FormatError>(HasSubstr("expected a zip archive, found a Git LFS")));
}

TEST(ZipArchive, what_begins_as_an_archive_is_told_from_the_rest) {
  EXPECT_TRUE(is_zip(bytes_of(zip_file({{"a", "1"}}))));
  EXPECT_TRUE(is_zip(bytes_of(zip_file({}))));
  EXPECT_FALSE(is_zip(bytes_of("\x80\x02")));
  EXPECT_EQ(inflated_limit(0), 32u << 20);
  EXPECT_EQ(inflated_limit(1 << 20), 64u << 20);
}

}  // namespace
}  // namespace prenorm
