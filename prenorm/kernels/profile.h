// Where the time of a pass goes, part by part: a Runtime that was given a Profile adds to it.
//
//   Profile profile;
//   run.set_profile(&profile);
//   … a training step …
//   double seconds = profile[Part::kMatmul].seconds;
//
// Measured on the calling thread, from the start of a kernel to its end, so the parts of a step and
// the rest of it add up to its time. Where one part calls another, the outer one counts.
#pragma once
#include <array>
#include <string_view>

#include "prenorm/base/stopwatch.h"
#include "prenorm/kernels/runtime.h"

namespace prenorm {

enum class Part { kMatmul, kAttention, kNorm, kActivation, kHead, kOptimizer, kOther };
constexpr std::size_t kParts = 7;

std::string_view part_name(Part part);

struct PartTimes {
  double seconds = 0.0;
  double flops = 0.0;  // of the products, without what is computed twice
  double bytes = 0.0;  // that have to be read and written, each once
};

class Profile {
 public:
  const PartTimes& operator[](Part part) const { return parts_[static_cast<std::size_t>(part)]; }
  double seconds() const;  // of all parts

 private:
  friend class ProfileScope;
  std::array<PartTimes, kParts> parts_;
  const void* outer_ = nullptr;
};

// From here to the end of the block: time of `part`. Free of cost for a Runtime without a profile.
class ProfileScope {
 public:
  ProfileScope(const Runtime& run, Part part, double flops, double bytes)
      : profile_(run.profile()) {
    if (profile_ != nullptr) open(part, flops, bytes);
  }
  ~ProfileScope() {
    if (profile_ != nullptr) close();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  void open(Part part, double flops, double bytes);
  void close();

  Profile* profile_;
  PartTimes* times_ = nullptr;
  Clock::time_point start_;
};

}  // namespace prenorm
