#include "prenorm/formats/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = PickleValue::Kind;

constexpr std::array<std::string_view, 2> kNames = {"torch.Size", "torch.FloatStorage"};

// Pickles hold NULs: a literal with its size.
template <std::size_t N>
std::string raw(const char (&text)[N]) {
  return {text, N - 1};
}

std::string text_of(const PickleValue& v) {
  std::string items;
  for (const PickleValue* item : v.items) items += (items.empty() ? "" : " ") + text_of(*item);
  switch (v.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return v.truth ? "True" : "False";
    case Kind::kInteger:
      return std::to_string(v.integer);
    case Kind::kReal:
      return std::to_string(v.real);
    case Kind::kString:
      return "'" + std::string(v.text) + "'";
    case Kind::kTuple:
      return "(" + items + ")";
    case Kind::kList:
      return "[" + items + "]";
    case Kind::kDict:
      return "{" + items + "}";
    case Kind::kName:
      return std::string(v.text);
    case Kind::kCall:
      return "call(" + items + ")";
    case Kind::kPersistent:
      return "id(" + items + ")";
  }
  return "?";
}

std::string read(const std::string& pickle) {
  return text_of(Pickle(std::as_bytes(std::span(pickle)), "p", kNames).root());
}

void expect_refused(const std::string& pickle, const std::string& expected,
                    const std::string& found) {
  EXPECT_THAT([&] { read(pickle); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("p: expected " + expected),
                                               HasSubstr("found " + found), HasSubstr("at byte"))));
}

TEST(Pickle, plain_values_read_as_python_wrote_them) {
  EXPECT_EQ(read("\x80\x02N."), "None");
  EXPECT_EQ(read("\x80\x02\x88."), "True");
  EXPECT_EQ(read("\x80\x02\x89."), "False");
  EXPECT_EQ(read(raw("\x80\x02J\xfe\xff\xff\xff.")), "-2");
  EXPECT_EQ(read("K\xff."), "255");
  EXPECT_EQ(read(raw("M\x00\x01.")), "256");
  EXPECT_EQ(read("\x8a\x01\xff."), "-1");
  EXPECT_EQ(read(raw("\x8a\x05\x00\x00\x00\x00\x01.")), "4294967296");
  EXPECT_EQ(read(raw("\x8a\x00.")), "0");
  EXPECT_EQ(read(raw("G\x3f\xf8\x00\x00\x00\x00\x00\x00.")), "1.500000");
  EXPECT_EQ(read(raw("X\x02\x00\x00\x00hi.")), "'hi'");
  EXPECT_EQ(read("\x8c\x02hi."), "'hi'");
}

TEST(Pickle, containers_hold_what_was_put_into_them) {
  EXPECT_EQ(read("(K\1K\2t."), "(1 2)");
  EXPECT_EQ(read("K\1K\2\x86."), "(1 2)");
  EXPECT_EQ(read(")."), "()");
  EXPECT_EQ(read("](K\1K\2e."), "[1 2]");
  EXPECT_EQ(read("]K\1a."), "[1]");
  EXPECT_EQ(read("}(\x8c\1aK\1\x8c\1bNu."), "{'a' 1 'b' None}");
  EXPECT_EQ(read("}\x8c\1aK\1s."), "{'a' 1}");
  EXPECT_EQ(read("ccollections\nOrderedDict\n)R}\x8c\1mK\1sb."), "{}");  // attributes are dropped
}

TEST(Pickle, values_put_aside_come_back_the_same) {
  EXPECT_EQ(read("K\7q\1h\1\x86."), "(7 7)");
  EXPECT_EQ(read(raw("K\7\x94h\0\x86.")), "(7 7)");
  EXPECT_EQ(read(raw("K\7r\1\0\0\0j\1\0\0\0\x86.")), "(7 7)");
}

TEST(Pickle, a_call_is_told_and_not_made) {
  EXPECT_EQ(read("ctorch\nSize\nK\2\x85\x85R."), "call(torch.Size ((2)))");
  EXPECT_EQ(read("\x8c\5torch\x8c\4Size\x93)R."), "call(torch.Size ())");
  EXPECT_EQ(read("\x8c\1sQ."), "id('s')");
}

TEST(Pickle, names_that_are_not_on_the_list_are_refused) {
  expect_refused("cos\nsystem\n\x8c\2ls\x85R.", "only what tensors are made of", "'os.system'");
  expect_refused(
      "\x8c\x08"
      "builtins\x8c\4eval\x93.",
      "only what tensors", "'builtins.eval'");
  expect_refused("ctorch\nSize.x\n.", "only what tensors", "'torch.Size.x'");
}

TEST(Pickle, opcodes_that_tensors_do_not_need_are_refused) {
  // PERSID, INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1, BUILD on no dict, sets, byte arrays.
  for (const char* pickle : {"Pid\n.", "(ios\nsystem\n.", "(o.", "))\x81.", ")))\x92.", "\x82\1.",
                             "\x8f.", "\x96.", "I1\n."}) {
    EXPECT_THROW(read(pickle), FormatError) << pickle;
  }
  expect_refused(")}b.", "a dict to add to", "another value");
  expect_refused("}Nb.", "attributes in a dict", "another value");
}

TEST(Pickle, damage_is_refused_with_its_place) {
  expect_refused("", "1 bytes", "the end of the pickle");
  expect_refused("N", "1 bytes", "the end of the pickle");
  expect_refused(".", "a value on the stack", "none");
  expect_refused("NN.", "one value at the end", "more");
  expect_refused("(N.", "one value at the end", "more");
  expect_refused("N.N", "the end of the pickle", "more bytes");
  expect_refused("h\1.", "a value put aside before", "none");
  expect_refused("t.", "a mark on the stack", "none");
  expect_refused("N(a.", "a value on the stack", "none");
  expect_refused("NNa.", "a list to add to", "another value");
  expect_refused("}(Nu.", "keys with values", "a key alone");
  expect_refused("\x80\6N.", "protocol 5 or older", "a newer one");
  expect_refused(
      "\x8a\x09"
      "123456789.",
      "whole numbers of 64 bits", "a longer one");
  expect_refused("X\xff\xff\xff\xffhi.", "4294967295 bytes", "the end of the pickle");
  expect_refused("\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi.", "18446744073709551615 bytes",
                 "the end");
  expect_refused("\x8c\1\xff.", "a string in UTF-8", "other bytes");
  expect_refused("NNR.", "a name and a tuple to call it with", "other values");
  expect_refused("cnoline", "a line", "the end of the pickle");
}

TEST(Pickle, a_list_may_hold_itself_and_is_freed) {
  const std::string pickle = "]q\1h\1a.";
  const Pickle p(std::as_bytes(std::span(pickle)), "p", kNames);
  EXPECT_EQ(p.root().items[0], &p.root());
}

}  // namespace
}  // namespace prenorm
