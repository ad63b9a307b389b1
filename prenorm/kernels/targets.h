// Highway's set-up for this project; include it in place of <hwy/highway.h> and
// <hwy/foreach_target.h>, after defining HWY_TARGET_INCLUDE. Of Highway's targets we compile AVX2,
// AVX-512 and NEON, and the compiler's baseline because Highway insists; the baseline has no fused
// multiply-add, so no kernel is defined for it.
#ifndef HWY_DISABLED_TARGETS
// Bit 14 is HWY_SSE2, a name that Highway 1.0.3 does not have.
#define HWY_DISABLED_TARGETS \
  (~(HWY_AVX2 | HWY_AVX3 | HWY_NEON | HWY_SCALAR | HWY_EMU128 | (1LL << 14)))
#endif
#include <hwy/foreach_target.h>  // IWYU pragma: export
#include <hwy/highway.h>         // IWYU pragma: export

#include "prenorm/kernels/isa.h"

// True while a target with fused multiply-add is being compiled.
#undef PRENORM_FMA_TARGET
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define PRENORM_FMA_TARGET 1
#else
#define PRENORM_FMA_TARGET 0
#endif

// Defines `const Type& function(Isa)`: the constant `symbol` of that target's namespace. Use it
// once a file, under HWY_ONCE, in namespace prenorm::kernels.
#ifndef PRENORM_TARGET_TABLE
#if HWY_ARCH_X86
#define PRENORM_TARGET_TABLE(Type, function, symbol) \
  const Type& function(Isa isa) { return isa == Isa::kAvx512 ? N_AVX3::symbol : N_AVX2::symbol; }
#else
#define PRENORM_TARGET_TABLE(Type, function, symbol) \
  const Type& function(Isa) { return N_NEON::symbol; }
#endif
#endif
