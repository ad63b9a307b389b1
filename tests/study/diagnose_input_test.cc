#include "prenorm/study/diagnose_input.h"

#include <gmock/gmock.h>

#include "prenorm/base/error.h"
#include "prenorm/study/apply_inputs.h"
#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DiagnoseInputOf : public testing::Test {
 protected:
  DiagnoseInput read(std::vector<Tensor> theirs, NameLayout layout = NameLayout::kAuto) {
    static const std::vector<Index> ids = {1, 2, 3, 4, 5, 6};
    static const std::vector<std::int64_t> numbers(ids.begin(), ids.end());
    TensorFile input("x", {tensor("input_ids", {2, 3}, std::span(numbers))});
    return read_diagnose_input(model_, input, TensorFile("theirs", std::move(theirs)), layout);
  }
  static Tensor zeros(const char* name, std::vector<Index> shape, double value = 0.5) {
    Values v(shape);
    for (double& x : v) x = value;
    return owned_tensor(name, shape, v, false);
  }
  std::string error(std::vector<Tensor> theirs) {
    try {
      read(std::move(theirs));
    } catch (const FormatError& e) {
      return e.what();
    }
    return "nothing thrown";
  }
  const DiagnoseModel model_ = small_diagnose_model();
  const StageList stages_{3};
};

TEST_F(DiagnoseInputOf, stages_and_logits_are_taken_by_their_names) {
  const DiagnoseInput in =
      read({zeros("logits", {2, 3, 40}), zeros("transformer.h.1.ln_1", {2, 3, 16})});
  EXPECT_EQ(in.problem.batch, 2);
  EXPECT_EQ(in.problem.time, 3);
  EXPECT_TRUE(in.problem.has(stages_.logits()));
  EXPECT_TRUE(in.problem.has(stages_.of(1, Stage::kLn1)));
  EXPECT_FALSE(in.logits_only);
  EXPECT_TRUE(read({zeros("logits", {2, 3, 40})}).logits_only);
}

TEST_F(DiagnoseInputOf, queries_keys_and_values_are_put_together) {
  const DiagnoseInput in = read({zeros("blocks.0.attn.hook_q", {2, 3, 2, 8}, 1),
                                 zeros("blocks.0.attn.hook_k", {2, 3, 2, 8}, 2),
                                 zeros("blocks.0.attn.hook_v", {2, 3, 16}, 3)});
  const Values& qkv = *in.problem.theirs.at(stages_.of(0, Stage::kCAttn));
  EXPECT_EQ(qkv.columns(), 48);
  EXPECT_EQ(qkv(5, 15), 1.0);
  EXPECT_EQ(qkv(5, 16), 2.0);
  EXPECT_EQ(qkv(5, 47), 3.0);
}

TEST_F(DiagnoseInputOf, the_same_stage_under_another_module_is_passed_over) {
  const DiagnoseInput in =
      read({zeros("transformer.h.0.attn.c_proj", {2, 3, 16}),
            zeros("transformer.h.0.attn", {2, 3, 16}), zeros("transformer.wte", {2, 3, 16})});
  EXPECT_EQ(in.problem.theirs.size(), 1u);
  EXPECT_THAT(in.ignored, ElementsAre("transformer.h.0.attn", "transformer.wte"));
}

TEST_F(DiagnoseInputOf, the_type_is_that_of_the_numbers_not_of_the_file) {
  using reference::Numbers;
  EXPECT_EQ(read({zeros("logits", {2, 3, 40}, 1.5)}).numbers, Numbers::kBfloat16);
  EXPECT_EQ(read({zeros("logits", {2, 3, 40}, 1.0009765625)}).numbers, Numbers::kFloat16);
  EXPECT_EQ(read({zeros("logits", {2, 3, 40}, 0.1)}).numbers, Numbers::kFloat32);
}

TEST_F(DiagnoseInputOf, what_is_wrong_is_named) {
  EXPECT_THAT(error({zeros("transformer.h.0.ln1", {2, 3, 16})}),
              HasSubstr("'transformer.h.0.ln_1'"));
  EXPECT_THAT(error({zeros("logits", {2, 3, 41})}), HasSubstr("expected [2, 3, 40], found"));
  EXPECT_THAT(error({zeros("transformer.ln_f", {2, 16, 3})}), HasSubstr("transposed"));
  EXPECT_THAT(error({zeros("logits", {2, 3, 40}, NAN)}), HasSubstr("NaN at element 0"));
  EXPECT_THAT(error({}), HasSubstr("expected logits or stages"));
}

}  // namespace
}  // namespace prenorm
