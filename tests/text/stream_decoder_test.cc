#include "prenorm/text/stream_decoder.h"

#include <gtest/gtest.h>

#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

TEST(StreamDecoder, a_character_appears_when_it_is_complete) {
  StreamDecoder decoder;  // " today? 😊" as GPT-2's tokens cut it
  EXPECT_EQ(decoder.feed(" today"), " today");
  EXPECT_EQ(decoder.feed("?"), "?");
  EXPECT_EQ(decoder.feed(" \xF0\x9F\x98"), " ");
  EXPECT_EQ(decoder.feed("\x8A"), "\xF0\x9F\x98\x8A");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, an_end_inside_a_character_shows_one_replacement_character) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.feed("a\xF0\x9F\x98"), "a");
  EXPECT_EQ(decoder.finish(), kReplacement);
  EXPECT_EQ(decoder.feed("b"), "b");  // it starts over
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, bytes_of_no_character_are_replaced_at_once) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.feed("\xFF"), kReplacement);
  EXPECT_EQ(decoder.feed("\xC3"), "");
  EXPECT_EQ(decoder.feed("z"), kReplacement + "z");
}

// However the bytes are cut, the text is that of the whole.
TEST(StreamDecoder, the_cuts_do_not_change_the_text) {
  const std::string bytes = "a\xC3\xA9\xE2\x82\xF0\x9F\x98\x80\x80\xFFz\xE2\x82\xAC\xF0\x9F";
  for (unsigned cuts = 0; cuts < 1u << (bytes.size() - 1); cuts += 3) {
    StreamDecoder decoder;
    std::string out, piece;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      piece += bytes[i];
      if (cuts >> i & 1) {
        out += decoder.feed(piece);
        piece.clear();
      }
    }
    out += decoder.feed(piece);
    out += decoder.finish();
    ASSERT_EQ(out, to_valid_utf8(bytes)) << cuts;
  }
}

}  // namespace
}  // namespace prenorm
