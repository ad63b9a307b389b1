#include "prenorm/study/diagnose_stages.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace prenorm {
namespace {

TEST(StageList, every_slot_is_found_by_its_own_name) {
  const StageList stages(3);
  for (Index slot = 0; slot < stages.count(); ++slot) {
    const auto found = stages.find(stages.name(slot), NameLayout::kHuggingFace);
    ASSERT_TRUE(found) << stages.name(slot);
    EXPECT_EQ(found->slot, slot) << stages.name(slot);
    EXPECT_EQ(found->part, -1);
  }
  EXPECT_EQ(stages.name(stages.of(2, Stage::kAct)), "transformer.h.2.mlp.act");
  EXPECT_EQ(stages.name(stages.of(1, Stage::kBlock)), "transformer.h.1");
}

TEST(StageList, other_programs_names_lead_to_the_same_stages) {
  const StageList stages(12);
  const auto slot = [&](const char* name) {
    const auto found = stages.find(name, NameLayout::kAuto);
    return found ? found->slot : -1;
  };
  EXPECT_EQ(slot("blocks.10.attn.hook_z"), stages.of(10, Stage::kAttended));
  EXPECT_EQ(slot("blocks.3.hook_resid_post"), stages.of(3, Stage::kBlock));
  EXPECT_EQ(slot("l_out-11"), stages.of(11, Stage::kBlock));
  EXPECT_EQ(slot("ffn_inp-0"), stages.of(0, Stage::kMiddle));
  EXPECT_EQ(slot("result_output"), stages.logits());
  EXPECT_EQ(slot("lm_head"), stages.logits());
  EXPECT_EQ(slot("h.4.mlp.gelu"), stages.of(4, Stage::kAct));
  EXPECT_EQ(slot("_orig_mod.transformer.h.4.ln_2"), stages.of(4, Stage::kLn2));
  EXPECT_EQ(slot("module.h.4"), stages.of(4, Stage::kBlock));
  EXPECT_EQ(slot("ln_f"), stages.final_norm());
  EXPECT_EQ(stages.find("blocks.1.attn.hook_k", NameLayout::kAuto)->part, 1);
}

TEST(StageList, a_layer_that_is_not_there_and_a_strange_name_are_none) {
  const StageList stages(2);
  for (const char* name : {"transformer.h.2.ln_1", "transformer.h.-1", "transformer.h.01.ln_1",
                           "transformer.h.x", "l_out-2", "something", ""}) {
    EXPECT_FALSE(stages.find(name, NameLayout::kAuto)) << name;
  }
}

TEST(StageList, one_layout_takes_no_other_programs_names) {
  const StageList stages(2);
  EXPECT_FALSE(stages.find("l_out-1", NameLayout::kHuggingFace));
  EXPECT_FALSE(stages.find("transformer.h.1", NameLayout::kLlamaCpp));
  EXPECT_TRUE(stages.find("transformer.h.1", NameLayout::kNanoGpt));
  const auto names = stages.names(NameLayout::kLlamaCpp);
  EXPECT_NE(std::ranges::find(names, "l_out-1"), names.end());
  EXPECT_EQ(std::ranges::find(names, "transformer.h.1"), names.end());
}

TEST(StageList, layouts_are_known_by_their_flags) {
  for (const char* name : {"auto", "hf", "nanogpt", "transformerlens", "llama.cpp", "prenorm"}) {
    const auto layout = name_layout_from_name(name);
    ASSERT_TRUE(layout) << name;
    EXPECT_EQ(name_layout_name(*layout), name);
  }
  EXPECT_FALSE(name_layout_from_name("torch"));
}

}  // namespace
}  // namespace prenorm
