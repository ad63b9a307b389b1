// What may be nothing but another rounding: the user's code makes its sums in an order of its own,
// and its rounding may be some times that of the replay in float32.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "prenorm/study/diagnose.h"
#include "prenorm/study/diagnose_search.h"

namespace prenorm {

// Whether stages that are off by little more than the rounding are no evidence: a mistake must take
// most of that away, and be the only one that does.
bool is_a_guess(const Evaluation& evaluation, std::span<const Index> slots,
                const Explanation& found);

// The first of these stages, which are the observed ones, that departs by more than another
// rounding may, or is brought back by the mistakes.
std::optional<std::string> first_departure(const Evaluation& evaluation, const Mistakes& mistakes,
                                           std::span<const DivergedStage> stages);

}  // namespace prenorm
