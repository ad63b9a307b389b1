// The watch of a training run as pictures: the health of each block by iteration, and where numbers
// stopped being finite. A part of report.html.
#pragma once
#include <string>

#include "prenorm/train/metrics.h"

namespace prenorm {

// HTML; empty for a run that was not watched.
std::string watch_section(const WatchLines& lines);

// "transformer.h.3.attn scores (forward): inf"
std::string non_finite_text(const NonFinite& found);

// One line a frame, the worst block of each: "iter 130: loss 2.41, |g| 0.91, size 3.1 in h.5, …".
std::string frame_text(const WatchFrame& frame);

}  // namespace prenorm
