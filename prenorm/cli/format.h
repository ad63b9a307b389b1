// Numbers as people read them.
#pragma once
#include <cstddef>
#include <string>

#include "prenorm/base/index.h"

namespace prenorm::cli {

std::string grouped(Index value);           // 1,003,854
std::string short_count(double value);      // 850, 8.1k, 0.80M, 124M, 1.5G
std::string flops_text(double value);       // 3.9 GFLOP
std::string bytes_text(std::size_t bytes);  // 512 B, 45 MB, 1.2 GB (powers of 1,000)
std::string duration_text(double seconds);  // 0:07, 12:40, 1:02:03, 3 d 4:05:06
std::string scientific_text(double value);  // 6.0e-4

}  // namespace prenorm::cli
