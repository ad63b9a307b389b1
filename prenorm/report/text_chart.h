// A chart (svg.h) in characters, for a terminal: each series a letter, with a key below.
//
//   std::fputs(text_chart(chart).c_str(), stdout);
#pragma once
#include <string>

#include "prenorm/report/svg.h"

namespace prenorm {

struct TextChartSize {
  int columns = 64, rows = 16;  // of the plot itself
};

// Lines that end in line ends, at most columns + 10 characters wide but for the key. Where series
// meet, the first one's letter stands. A chart without a finite point says so.
std::string text_chart(const Chart& chart, const TextChartSize& size = {});

}  // namespace prenorm
