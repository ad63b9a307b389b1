#include "prenorm/kernels/isa.h"

#include <hwy/highway.h>

#include <array>
#include <string>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

struct Entry {
  Isa isa;
  std::string_view name;
};

constexpr std::array kNames = {Entry{Isa::kAvx2, "avx2"}, Entry{Isa::kAvx512, "avx512"},
                               Entry{Isa::kNeon, "neon"}};

std::pair<std::array<Isa, 3>, std::size_t> detect() {
  std::array<Isa, 3> found{};
  std::size_t count = 0;
#if HWY_ARCH_X86
  const auto here = static_cast<std::int64_t>(hwy::SupportedTargets());
  if ((here & HWY_AVX3) != 0) found[count++] = Isa::kAvx512;
  if ((here & HWY_AVX2) != 0) found[count++] = Isa::kAvx2;
#elif HWY_ARCH_ARM_A64
  found[count++] = Isa::kNeon;  // every 64-bit Arm has it
#endif
  return {found, count};
}

}  // namespace

std::string_view isa_name(Isa isa) {
  for (const Entry& entry : kNames) {
    if (entry.isa == isa) return entry.name;
  }
  return "unknown";
}

std::span<const Isa> supported_isas() {
  static const auto found = detect();
  return std::span(found.first).first(found.second);
}

Isa best_isa() {
  const auto isas = supported_isas();
  if (isas.empty()) {
    throw UnsupportedCpu(
        "cpu: expected fused multiply-add (AVX2 with FMA, AVX-512 or NEON), found none");
  }
  return isas.front();
}

Isa isa_from_name(std::string_view name) {
  if (name == "auto") return best_isa();
  std::string here;
  for (Isa isa : supported_isas()) {
    if (isa_name(isa) == name) return isa;
    here += (here.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  throw UnsupportedCpu("isa: expected auto or one of this machine's (" + here + "), found '" +
                       std::string(name) + "'");
}

}  // namespace prenorm
