#include "prenorm/study/diagnose_places.h"

#include <gtest/gtest.h>

namespace prenorm {
namespace {

TEST(DiagnosePlaces, are_the_module_that_has_the_mistake) {
  const std::string block = "transformer.h.2";
  EXPECT_EQ(place_of({.name = "norm.ddof"}), "everywhere");
  EXPECT_EQ(place_of({.name = "norm.ddof", .where = block + ".ln_1"}), block + ".ln_1");
  EXPECT_EQ(place_of({.name = "attention.no-scale", .where = block}), block + ".attn");
  EXPECT_EQ(place_of({.name = "numbers.f16-cache", .where = block}), block + ".attn");
  EXPECT_EQ(place_of({.name = "activation.relu", .where = block}), block + ".mlp.act");
  EXPECT_EQ(place_of({.name = "structure.post-norm", .where = block}), block);
  EXPECT_EQ(place_of({.name = "weights.no-bias", .where = block, .text = "mlp.c_fc"}),
            block + ".mlp.c_fc");
}

TEST(DiagnosePlaces, a_choice_moves_to_another_layer_with_its_norm) {
  EXPECT_EQ(moved_to_layer({.name = "norm.ddof", .where = "transformer.h.0.ln_1"}, 13).where,
            "transformer.h.13.ln_1");
  EXPECT_EQ(moved_to_layer({.name = "norm.ddof", .where = "transformer.h.10"}, 3).where,
            "transformer.h.3");
  EXPECT_EQ(moved_to_layer({.name = "norm.ddof", .where = "transformer.ln_f"}, 3).where,
            "transformer.ln_f");
}

TEST(DiagnosePlaces, a_mistake_changes_the_stage_of_its_module_first) {
  const StageList stages(4);
  const std::string block = "transformer.h.2";
  const auto slot = [&](const char* name, const std::string& where, const char* text = "") {
    return changed_slot(stages, {.name = name, .where = where, .text = text});
  };
  EXPECT_EQ(slot("norm.ddof", block + ".ln_2"), stages.of(2, Stage::kLn2));
  EXPECT_EQ(slot("norm.ddof", "transformer.ln_f"), stages.final_norm());
  EXPECT_EQ(slot("attention.no-mask", block), stages.of(2, Stage::kAttended));
  EXPECT_EQ(slot("activation.relu", block), stages.of(2, Stage::kAct));
  EXPECT_EQ(slot("weights.no-bias", block, "mlp.c_fc"), stages.of(2, Stage::kFc));
  EXPECT_FALSE(slot("structure.post-norm", block));
  EXPECT_FALSE(slot("attention.no-mask", ""));
}

TEST(DiagnosePlaces, a_fitted_number_is_as_short_as_its_fit_allows) {
  const auto reported = [](double eps) {
    return reported_number({.name = "norm.eps-value", .number = eps});
  };
  EXPECT_EQ(reported(1.004e-6), 1e-6);
  EXPECT_EQ(reported(2.52e-4), 2.5e-4);
  EXPECT_EQ(reported_number({.name = "position.offset", .number = 3}), 3.0);
  EXPECT_FALSE(reported_number({.name = "norm.ddof"}));
}

TEST(DiagnosePlaces, weights_are_reported_as_tensors) {
  EXPECT_EQ(reported_text({.name = "weights.transposed", .text = "attn.c_proj"}),
            "attn.c_proj.weight");
  EXPECT_EQ(reported_text({.name = "weights.no-bias", .text = "mlp.c_fc"}), "mlp.c_fc.bias");
  EXPECT_EQ(reported_text({.name = "attention.qkv-order", .text = "kqv"}), "kqv");
}

TEST(DiagnosePlaces, fitted_numbers_do_not_make_two_mistakes) {
  EXPECT_TRUE(
      same_mistake({.name = "norm.eps-value", .number = 1e-6},
                   {.name = "norm.eps-value", .where = "transformer.ln_f", .number = 2e-6}));
  EXPECT_FALSE(same_mistake({.name = "position.offset", .number = 1},
                            {.name = "position.offset", .number = 2}));
  EXPECT_FALSE(same_mistake({.name = "weights.no-bias", .text = "mlp.c_fc"},
                            {.name = "weights.no-bias", .text = "mlp.c_proj"}));
}

}  // namespace
}  // namespace prenorm
