#include "prenorm/base/checksum.h"

#include <gtest/gtest.h>

namespace prenorm {
namespace {

TEST(Checksum, the_check_value_of_the_standard_comes_out) {
  EXPECT_EQ(crc32(std::string_view("123456789")), 0xCBF43926u);
  EXPECT_EQ(crc32(std::string_view()), 0u);
  EXPECT_EQ(checksum_text(crc32(std::string_view("123456789"))), "cbf43926");
  EXPECT_EQ(checksum_text(0x1fu), "0000001f");
}

TEST(Checksum, pieces_one_after_the_other_give_that_of_the_whole) {
  const std::string_view text = "the cat sees the dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32(text.substr(cut), crc32(text.substr(0, cut))), crc32(text)) << cut;
  }
}

TEST(Checksum, each_single_bit_that_flips_changes_it) {
  std::string text(97, 'x');
  const std::uint32_t whole = crc32(text);
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(crc32(text), whole) << bit;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
  }
}

}  // namespace
}  // namespace prenorm
