#include "prenorm/study/diagnose.h"

#include <gmock/gmock.h>

#include "tests/study/diagnose_testing.h"

namespace prenorm {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> names(const Diagnosis& found) {
  std::vector<std::string> out;
  for (const NamedMistake& m : found.mistakes) out.push_back(m.name);
  return out;
}

std::string text(const Diagnosis& found) {
  std::string out(diagnosis_status_name(found.status));
  for (const NamedMistake& m : found.mistakes) out += " " + m.name + "@" + m.where + m.text;
  for (const std::string& name : found.candidates) out += " ?" + name;
  return out;
}

// Every row of the table that can be made in the small model, with the values it needs.
Mistakes every_mistake(const DiagnoseModel& model) {
  Mistakes all;
  for (const reference::Mistake& mistake : reference::mistakes()) {
    MistakeChoice choice{.name = std::string(mistake.name)};
    if (choice.name == "activation.gelu-tanh" || choice.name.starts_with("numbers.bf16") ||
        choice.name == "numbers.f16") {
      continue;
    }
    if (choice.name == (model.settings.tied ? "weights.tied-head" : "weights.untied-head"))
      continue;
    if (choice.name == "weights.untied-head") continue;  // needs another matrix: below
    if (choice.name == "norm.eps-value") choice.number = 1e-3;
    if (choice.name == "attention.mask-finite") choice.number = -2.0;
    if (mistake.value == reference::MistakeValue::kPacking) choice.text = "kqv";
    if (mistake.value == reference::MistakeValue::kModule) choice.text = "attn.c_proj";
    all.push_back(choice);
  }
  return all;
}

class Diagnose : public testing::TestWithParam<Dumped> {
 protected:
  Diagnosis of(const DiagnoseModel& model, const Mistakes& mistakes,
               const SmallModel& size = {}) const {
    return diagnose(run_, model, dump_of(model, small_tokens(size), mistakes, GetParam()));
  }
  Runtime run_;
};

TEST_P(Diagnose, a_clean_run_is_equal) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const DiagnoseModel model = small_diagnose_model({.seed = seed});
    const Diagnosis found = of(model, {}, {.seed = seed});
    EXPECT_EQ(found.status, DiagnosisStatus::kEqual) << text(found);
    EXPECT_THAT(found.mistakes, IsEmpty());
    EXPECT_FALSE(found.first_divergence);
  }
}

TEST_P(Diagnose, names_every_mistake_of_the_table) {
  for (const bool tied : {true, false}) {
    const SmallModel size{.tied = tied};
    const DiagnoseModel model = small_diagnose_model(size);
    for (const MistakeChoice& made : every_mistake(model)) {
      const Diagnosis found = of(model, {made}, size);
      ASSERT_THAT(names(found), ElementsAre(made.name)) << made.name << ": " << text(found);
      EXPECT_EQ(found.status, DiagnosisStatus::kNamed) << made.name;
      const NamedMistake& named = found.mistakes.front();
      EXPECT_EQ(named.where, "everywhere") << made.name;
      EXPECT_GT(named.margin, 2.0) << made.name;
      const double number = made.number.value_or(1.0);
      EXPECT_NEAR(named.number.value_or(1.0), number, 0.1 * std::abs(number)) << made.name;
    }
  }
}

TEST_P(Diagnose, tells_the_layer_that_alone_has_a_mistake) {
  const DiagnoseModel model = small_diagnose_model();
  const auto place = [&](const MistakeChoice& made) {
    const Diagnosis found = of(model, {made});
    EXPECT_THAT(names(found), ElementsAre(made.name)) << text(found);
    return found.mistakes.empty() ? "" : found.mistakes.front().where;
  };
  EXPECT_EQ(place({.name = "norm.ddof", .where = "transformer.h.1.ln_2"}), "transformer.h.1.ln_2");
  EXPECT_EQ(place({.name = "norm.ddof", .where = "transformer.h.1"}), "transformer.h.1");
  EXPECT_EQ(place({.name = "norm.no-bias", .where = "transformer.ln_f"}), "transformer.ln_f");
  EXPECT_EQ(place({.name = "attention.no-scale", .where = "transformer.h.2"}),
            "transformer.h.2.attn");
  EXPECT_EQ(place({.name = "activation.relu", .where = "transformer.h.0"}),
            "transformer.h.0.mlp.act");
  EXPECT_EQ(place({.name = "structure.no-residual", .where = "transformer.h.1"}),
            "transformer.h.1");
  EXPECT_EQ(place({.name = "weights.no-bias", .where = "transformer.h.1", .text = "mlp.c_fc"}),
            "transformer.h.1.mlp.c_fc");
}

TEST_P(Diagnose, separates_two_mistakes) {
  const DiagnoseModel model = small_diagnose_model();
  const MistakeChoice ddof{.name = "norm.ddof"}, relu{.name = "activation.relu"},
      packing{.name = "attention.qkv-order", .text = "vkq"}, post{.name = "structure.post-norm"},
      offset{.name = "position.offset", .number = 2};
  EXPECT_THAT(names(of(model, {ddof, relu})), UnorderedElementsAre("norm.ddof", "activation.relu"));
  EXPECT_THAT(names(of(model, {post, packing})),
              UnorderedElementsAre("structure.post-norm", "attention.qkv-order"));
  EXPECT_THAT(names(of(model, {offset, ddof})),
              UnorderedElementsAre("position.offset", "norm.ddof"));
}

TEST_P(Diagnose, a_mistake_below_the_rounding_is_equal) {
  const DiagnoseModel model = small_diagnose_model();
  const MistakeChoice far{.name = "attention.mask-finite", .number = -1e4};
  EXPECT_EQ(of(model, {far}).status, DiagnosisStatus::kEqual);
}

TEST_P(Diagnose, what_no_hypothesis_explains_is_unknown) {
  const DiagnoseModel model = small_diagnose_model();
  DiagnoseInput input = dump_of(model, small_tokens(), {}, GetParam());
  for (auto& [slot, values] : input.problem.theirs) {
    Values other = *values;
    for (double& x : other) x += 0.05 * std::sin(1000.0 * x);
    values = std::make_shared<const Values>(other);
  }
  const Diagnosis found = diagnose(run_, model, input);
  EXPECT_EQ(found.status, DiagnosisStatus::kUnknown) << text(found);
}

TEST_P(Diagnose, an_unknown_head_shows_with_more_tokens_than_features) {
  const SmallModel size;
  const DiagnoseModel model = small_diagnose_model(size);
  DiagnoseModel theirs = model;
  theirs.settings.tied = false;
  theirs.parameters.lm_head = small_diagnose_model({.seed = 9}).parameters.embedding.wte;
  const Diagnosis found =
      diagnose(run_, model, dump_of(theirs, small_tokens(size), {}, GetParam()));
  EXPECT_THAT(names(found), ElementsAre("weights.untied-head")) << text(found);
  EXPECT_EQ(found.first_divergence.value_or("logits"), "logits");
}

TEST_P(Diagnose, a_clean_run_in_a_small_type_is_named_after_it) {
  using reference::Numbers;
  const DiagnoseModel model = small_diagnose_model();
  for (const Numbers numbers : {Numbers::kBfloat16, Numbers::kFloat16}) {
    const DiagnoseModel small = rounded(model, numbers);
    const Diagnosis found =
        diagnose(run_, model, dump_of(small, small_tokens(), {}, GetParam(), numbers));
    const char* name = numbers == Numbers::kBfloat16 ? "numbers.bf16" : "numbers.f16";
    EXPECT_THAT(names(found), ElementsAre(name)) << text(found);
    EXPECT_EQ(found.status, DiagnosisStatus::kNamed);
  }
}

TEST_P(Diagnose, another_head_does_not_hide_what_is_mistaken_before_it) {
  const SmallModel size;
  const DiagnoseModel model = small_diagnose_model(size);
  DiagnoseModel theirs = small_diagnose_model(size);
  theirs.settings.tied = false;
  theirs.parameters.lm_head = small_diagnose_model({.seed = 9}).parameters.embedding.wte;
  for (const char* name : {"norm.ddof", "norm.no-affine", "attention.no-mask"}) {
    const Diagnosis found =
        diagnose(run_, model, dump_of(theirs, small_tokens(size), {{.name = name}}, GetParam()));
    EXPECT_THAT(names(found), testing::UnorderedElementsAre(name, "weights.untied-head"))
        << text(found);
    EXPECT_EQ(found.status, DiagnosisStatus::kNamed);
  }
}

INSTANTIATE_TEST_SUITE_P(From, Diagnose, testing::Values(Dumped::kStages, Dumped::kLogits),
                         [](const auto& which) {
                           return which.param == Dumped::kStages ? "stages" : "logits";
                         });

TEST(DiagnoseStages, three_mistakes_separate_and_the_first_stage_is_told) {
  const DiagnoseModel model = small_diagnose_model();
  const Mistakes made{{.name = "norm.eps-value", .number = 1e-6},
                      {.name = "activation.gelu-erf"},
                      {.name = "attention.scale-by-width"}};
  const Diagnosis found =
      diagnose(Runtime(), model, dump_of(model, small_tokens(), made, Dumped::kStages));
  EXPECT_THAT(names(found), UnorderedElementsAre("norm.eps-value", "activation.gelu-erf",
                                                 "attention.scale-by-width"))
      << text(found);
  EXPECT_EQ(found.first_divergence, "transformer.h.0.ln_1");
}

TEST(DiagnoseStages, some_stages_are_enough) {
  const DiagnoseModel model = small_diagnose_model();
  const StageList list(model.layers());
  DiagnoseInput input = dump_of(model, small_tokens(), {{.name = "norm.rms"}}, Dumped::kStages);
  std::erase_if(input.problem.theirs,
                [&](const auto& entry) { return list.stage(entry.first) != Stage::kBlock; });
  const Diagnosis found = diagnose(Runtime(), model, input);
  EXPECT_THAT(names(found), ElementsAre("norm.rms")) << text(found);
  EXPECT_EQ(found.mistakes.front().where, "everywhere");
  EXPECT_EQ(found.first_divergence, "transformer.h.0");
}

TEST(DiagnoseLogits, what_rounding_cannot_tell_apart_is_ambiguous) {
  // Real scores far below the number: blocked keys take all the weight, whatever the number is.
  DiagnoseModel model = small_diagnose_model({.layers = 1});
  for (float& x : model.parameters.h[0].attn.c_attn.weight) x *= 1.0f;
  Floats& bias = model.parameters.h[0].attn.c_attn.bias;
  for (Index c = 0; c < 16; ++c) bias[c] = 400.0f, bias[16 + c] = -400.0f;
  const SmallModel size{.layers = 1};
  const Diagnosis found =
      diagnose(Runtime(), model,
               dump_of(model, small_tokens(size),
                       {{.name = "attention.mask-finite", .number = -1e4}}, Dumped::kLogits));
  EXPECT_EQ(found.status, DiagnosisStatus::kAmbiguous) << text(found);
  EXPECT_THAT(found.candidates, Contains("attention.mask-finite"));
  EXPECT_THAT(found.candidates, Contains("attention.mask-zero"));
}

}  // namespace
}  // namespace prenorm
