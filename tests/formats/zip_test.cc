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

TEST(ZipArchive, what_begins_as_an_archive_is_told_from_the_rest) {
  EXPECT_TRUE(is_zip(bytes_of(zip_file({{"a", "1"}}))));
  EXPECT_TRUE(is_zip(bytes_of(zip_file({}))));
  EXPECT_FALSE(is_zip(bytes_of("\x80\x02")));
  EXPECT_EQ(inflated_limit(0), 32u << 20);
  EXPECT_EQ(inflated_limit(1 << 20), 64u << 20);
}

}  // namespace
}  // namespace prenorm
