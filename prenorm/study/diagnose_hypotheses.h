// What a diagnosis tries: every mistake of the textbook's table with every value that may be
// tried, everywhere, in one block, or in one norm.
//
//   for (const MistakeChoice& choice : choices_of_block(model, 2)) …
//   const reference::GptOptions options = with_mistakes(model.options(), {a, b});
#pragma once
#include <string>
#include <vector>

#include "prenorm/reference/mistake_table.h"
#include "prenorm/study/diagnose_model.h"

namespace prenorm {

using reference::MistakeChoice;
using Mistakes = std::vector<MistakeChoice>;

// Mistakes that concern the whole model, or all layers at once (`where` is empty). `time` is the
// length of a sequence, which limits position offsets.
Mistakes choices_everywhere(const DiagnoseModel& model, Index time);
// The same in one block, and in either norm of it: `where` is "transformer.h.2" or one of its
// norms.
Mistakes choices_of_block(const DiagnoseModel& model, Index layer);
// In the final norm and the head.
Mistakes choices_of_end(const DiagnoseModel& model);

reference::GptOptions with_mistakes(reference::GptOptions options, const Mistakes& mistakes);

// Whether two can be made together, in either order, each still doing something.
bool compatible(const reference::GptOptions& right, const MistakeChoice& a, const MistakeChoice& b);

// Everything in the options that a mistake changes, as numbers.
std::vector<double> fingerprint(const reference::GptOptions& options);

// A mistake whose number may be anything: ε, the mask's number.
bool has_continuous_value(const MistakeChoice& choice);
// The numbers that are tried for the mask, in order.
std::span<const double> mask_numbers();
// The same mistake, whatever its value and place.
bool same_kind(const MistakeChoice& a, const MistakeChoice& b);

}  // namespace prenorm
