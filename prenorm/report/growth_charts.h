// The charts and tables of `prenorm growth`, for the page and for the terminal alike.
#pragma once
#include <string>
#include <vector>

#include "prenorm/report/growth_report.h"
#include "prenorm/report/svg.h"

namespace prenorm {

enum class GrowthQuantity { kForward, kBackward };

// The stacks that a norm holds, on a linear axis over the depth, with √(1 + l) beside them.
Chart held_chart(const GrowthReport& report);
// One series a stack, on a logarithmic axis.
Chart stacks_chart(const GrowthReport& report, GrowthQuantity quantity);
// The stream, and what the blocks read of it, of models; or their gradients.
Chart models_chart(const std::vector<ModelGrowth>& models, GrowthQuantity quantity);
// The norm of the gradient of each block's parameters.
Chart parameters_chart(const std::vector<ModelGrowth>& models);
// The losses of one depth, each step, with the tokens' entropy as a rule.
Chart losses_chart(const StabilityReport& report, Index layers);

// The depths at which a table shows numbers: 0, 1, 2, 3 and then about every doubling, the last.
std::vector<Index> shown_depths(Index layers);

}  // namespace prenorm
