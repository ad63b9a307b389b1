#include "prenorm/reference/mistakes.h"

#include <gtest/gtest.h>

namespace prenorm::reference {
namespace {

TEST(Mistakes, the_default_is_the_correct_block) {
  EXPECT_NO_THROW(require_no_mistake("layer_norm", LayerNormMistakes{}));
  EXPECT_NO_THROW(require_no_mistake("linear", LinearMistakes{}));
  EXPECT_NO_THROW(require_no_mistake("attention", AttentionMistakes{}));
  EXPECT_NO_THROW(require_no_mistake("block", BlockMistakes{}));
  EXPECT_NO_THROW(require_no_mistake("gpt", GptMistakes{}));
}

TEST(Mistakes, a_mistake_that_is_set_is_refused_where_none_is_allowed) {
  EXPECT_THROW(require_no_mistake("layer_norm", LayerNormMistakes{.ddof = true}), ConfigError);
  EXPECT_THROW(require_no_mistake("attention", AttentionMistakes{.qkv_order = "kqv"}), ConfigError);
  EXPECT_THROW(require_no_mistake("gpt", GptMistakes{.final_norm_calls = 2}), ConfigError);
}

}  // namespace
}  // namespace prenorm::reference
