#include "prenorm/report/diagnosis_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Diagnosis named() {
  Diagnosis found;
  found.status = DiagnosisStatus::kNamed;
  found.mistakes = {{.name = "norm.eps-value", .number = 1e-3, .margin = 250.0}};
  found.first_divergence = "transformer.h.0.ln_1";
  found.stages = {{"transformer.drop", 1e-9, 3e-8, false},
                  {"transformer.h.0.ln_1", 3e-5, 3e-8, true},
                  {"logits<", 2e-7, 1e-7, false}};
  return found;
}

TEST(DiagnosisReport, begins_with_the_verdict) {
  Diagnosis equal;
  equal.status = DiagnosisStatus::kEqual;
  EXPECT_EQ(diagnosis_verdict(equal), "no mistake found: equal within float32 rounding");
  EXPECT_THAT(diagnosis_text(equal), StartsWith("no mistake found"));
  EXPECT_EQ(diagnosis_verdict(named()), "norm.eps-value = 0.001, everywhere");
  Diagnosis open;
  open.status = DiagnosisStatus::kAmbiguous;
  open.numbers = reference::Numbers::kBfloat16;
  open.candidates = {"norm.ddof", "norm.eps-value"};
  EXPECT_THAT(diagnosis_verdict(open), HasSubstr("cannot be told apart in bfloat16"));
  EXPECT_THAT(diagnosis_verdict(open), HasSubstr("dump in float32 or run the probe"));
  Diagnosis unknown;
  EXPECT_THAT(diagnosis_verdict(unknown), HasSubstr("no known mistake explains"));
}

TEST(DiagnosisReport, the_text_tells_the_fix_and_marks_the_stage_that_departs) {
  const std::string text = diagnosis_text(named());
  EXPECT_THAT(text, HasSubstr("fix:  nn.LayerNorm(width, eps=config.layer_norm_epsilon)"));
  EXPECT_THAT(text, HasSubstr("seen: "));
  EXPECT_THAT(text, HasSubstr("3.0e-05   3.0e-08  ######### <"));
  EXPECT_THAT(text, HasSubstr("first divergence: transformer.h.0.ln_1"));
}

TEST(DiagnosisReport, the_page_is_whole_escaped_and_fetches_nothing) {
  const std::string page = diagnosis_html(named(), "run & co");
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("run &amp; co"));
  EXPECT_THAT(page, HasSubstr("logits&lt;"));
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
}

}  // namespace
}  // namespace prenorm
