// Fingerprints of the arithmetic: hashes of the bits that every kernel, a block, a model and a
// small training give on fixed inputs. They are the same on every machine, instruction set, thread
// count, compiler and build, or something is wrong there; they stand in the order in which one
// builds on another, so the first that differs is the place to look.
//
//   const Runtime run;
//   const auto found = compute_fingerprints(run);
//   if (const auto first = first_difference(found)) …   // found[*first] is not the recorded one
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "prenorm/kernels/runtime.h"

namespace prenorm {

struct Fingerprint {
  std::string_view name;  // "matmul", "attention backward", "training of 100 steps"
  std::uint64_t hash = 0;
  bool operator==(const Fingerprint&) const = default;
};

// Takes about a second.
std::vector<Fingerprint> compute_fingerprints(const Runtime& run);

// What they have been since the arithmetic last changed, in the same order.
std::span<const Fingerprint> recorded_fingerprints();

// The index of the first that is not the recorded one.
std::optional<std::size_t> first_difference(std::span<const Fingerprint> found);

}  // namespace prenorm
