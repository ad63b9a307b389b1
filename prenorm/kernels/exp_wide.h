// e^x in double, elementwise, beside matmul_wide.h: for replays, whose results are never stored.
// The error is at most 2 ulp and, unlike that of the kernels which train and run models, not fixed
// to the bit over instruction sets.
#pragma once
#include "prenorm/base/index.h"
#include "prenorm/kernels/isa.h"

namespace prenorm::kernels {

// x ← e^x for n numbers; zero of −∞ and where e^x is denormal, infinite from 709 on. On the calling
// thread alone.
void exp_wide(Isa isa, Index n, double* x);

}  // namespace prenorm::kernels
