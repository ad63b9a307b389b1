// A diagnosis (study/diagnose.h) for people: as plain text and as a self-contained HTML page. Both
// begin with the verdict, then show where the numbers part from the model along the depth, then
// how to put it right and where the mistake has happened before.
#pragma once
#include <string>

#include "prenorm/study/diagnose.h"

namespace prenorm {

// One sentence: "no mistake found: equal within float32 rounding", "norm.ddof everywhere: …".
std::string diagnosis_verdict(const Diagnosis& found);

// Lines, with bars of a logarithmic scale for each stage.
std::string diagnosis_text(const Diagnosis& found);

// A whole document. `model` is what was diagnosed against, for the heading.
std::string diagnosis_html(const Diagnosis& found, const std::string& model);

}  // namespace prenorm
