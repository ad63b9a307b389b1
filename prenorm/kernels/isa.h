// Which instruction sets the kernels are compiled for and which of them this CPU runs.
#pragma once
#include <span>
#include <string_view>

namespace prenorm {

// All have fused multiply-add, which the one arithmetic of the kernels is made of.
enum class Isa { kAvx2, kAvx512, kNeon };

// "avx2", "avx512", "neon".
std::string_view isa_name(Isa isa);

// The targets that this build holds and this CPU runs, fastest first. Empty on a CPU without fused
// multiply-add.
std::span<const Isa> supported_isas();

// The first of supported_isas(). Throws UnsupportedCpu when there is none.
Isa best_isa();

// The supported target of that name ("auto" is the best). Throws UnsupportedCpu naming those here.
Isa isa_from_name(std::string_view name);

}  // namespace prenorm
