// The kernels of products in bfloat16 that need instructions of their own. Which of them a CPU can
// run is products.h's has_bf16_unit(); they are reached through bf16_kernel(). Internal to
// kernels/.
#pragma once
#include "prenorm/kernels/bf16_target.h"

namespace prenorm::kernels {

#if defined(__x86_64__)
extern const Bf16Kernel kBf16DotKernel;   // VDPBF16PS
extern const Bf16Kernel kBf16TileKernel;  // TDPBF16PS
#endif

}  // namespace prenorm::kernels
