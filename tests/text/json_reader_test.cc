#include "prenorm/text/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prenorm {
namespace {

using ::testing::ThrowsMessage;

TEST(JsonReader, absent_members_are_null_and_what_is_no_object_is_named) {
  const JsonReader reader("f.json");
  const Json json = {{"a", 1}, {"p", {{"type", "ByteLevel"}}}, {"q", {{"type", 3}}}};
  EXPECT_EQ(reader.member(json, "a"), 1);
  EXPECT_TRUE(reader.member(json, "b").is_null());
  EXPECT_EQ(reader.type_of(json, "p"), "ByteLevel");
  EXPECT_EQ(reader.type_of(json, "q"), "3");
  EXPECT_EQ(reader.type_of(json, "r"), "");
  EXPECT_THAT([&] { reader.member(Json::array({7}), "a"); },
              ThrowsMessage<FormatError>("f.json: expected an object around 'a', found [7]"));
}

}  // namespace
}  // namespace prenorm
