#include "prenorm/text/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "tests/text/small_bpe.h"

namespace prenorm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(BpeModel, merges_are_resolved_to_ids_in_their_order) {
  const std::vector<std::string> tokens = {"a", "b", "ba", "ab"};
  const std::vector<MergeText> merges = {{"a", "b"}, {"b", "a"}};
  EXPECT_THAT(resolve_merges(tokens, merges, "m"),
              ElementsAre(BpeMerge{0, 1, 3}, BpeMerge{1, 0, 2}));
}

TEST(BpeModel, merges_of_unknown_tokens_are_named) {
  const std::vector<std::string> tokens = {"a", "b", "ab"};
  const auto resolving = [&](MergeText merge) {
    return [&tokens, merge] {
      const std::vector<MergeText> merges = {{"a", "b"}, merge};
      resolve_merges(tokens, merges, "merges.txt");
    };
  };
  EXPECT_THAT(resolving({"a", "c"}),
              ThrowsMessage<FormatError>("merges.txt: expected tokens of the vocabulary in merge "
                                         "2, 'a' + 'c', found 'c'"));
  EXPECT_THAT(resolving({"c", "a"}), ThrowsMessage<FormatError>(HasSubstr("found 'c'")));
  EXPECT_THAT(resolving({"ab", "b"}), ThrowsMessage<FormatError>(HasSubstr("found 'abb'")));
  EXPECT_THAT(resolving({"", "b"}), ThrowsMessage<FormatError>(HasSubstr("found ''")));
}

TEST(BpeModel, a_model_that_is_not_sound_is_refused_with_what_is_wrong) {
  EXPECT_NO_THROW(small_bpe().validate("m"));
  const auto refused = [](const char* says, auto change) {
    BpeModel model = small_bpe();
    change(model);
    EXPECT_THAT([&] { model.validate("m"); }, ThrowsMessage<FormatError>(HasSubstr(says)));
  };
  refused("m: expected a vocabulary, found no tokens", [](BpeModel& m) { m.tokens.clear(); });
  refused("each with a token of its own, found no token for 65",
          [](BpeModel& m) { m.tokens[65].clear(); });
  refused("found 'b' twice", [](BpeModel& m) { m.tokens[97] = "b"; });
  refused("expected ids 0 to 264, found 265 for '<|endoftext|>'",
          [](BpeModel& m) { m.added_tokens[0].id = 265; });
  refused("expected ids 0 to 264, found -1", [](BpeModel& m) { m.added_tokens[0].id = -1; });
  refused("found 97 for the added token '<|endoftext|>'",
          [](BpeModel& m) { m.added_tokens[0].id = 97; });
  refused("found 264 for the added token '<pad>'", [](BpeModel& m) {
    m.added_tokens.push_back({"<pad>", 264});
  });
  refused("found 264 for the added token '<|endoftext|>'",
          [](BpeModel& m) { m.added_tokens.push_back(m.added_tokens[0]); });
  refused("text in added tokens", [](BpeModel& m) { m.added_tokens.push_back({"", 264}); });
  refused("in merges, found 265", [](BpeModel& m) { m.merges[0].result = 265; });
  refused("in merges, found -1", [](BpeModel& m) { m.merges[0].left = -1; });
}

TEST(BpeModel, added_tokens_may_have_ids_that_the_vocabulary_has_not) {
  BpeModel model = small_bpe();
  model.tokens.resize(267);
  model.added_tokens.push_back({"<pad>", 266});
  EXPECT_THROW(model.validate("m"), FormatError);  // 265 is nobody's
  model.added_tokens.push_back({"<sep>", 265});
  EXPECT_NO_THROW(model.validate("m"));
}

}  // namespace
}  // namespace prenorm
