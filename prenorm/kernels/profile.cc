#include "prenorm/kernels/profile.h"

namespace prenorm {

std::string_view part_name(Part part) {
  constexpr std::array<std::string_view, kParts> kNames = {
      "matmul", "attention", "norm", "activation", "head + loss", "optimizer", "other kernels"};
  return kNames[static_cast<std::size_t>(part)];
}

double Profile::seconds() const {
  double sum = 0.0;
  for (const PartTimes& part : parts_) sum += part.seconds;
  return sum;
}

void ProfileScope::open(Part part, double flops, double bytes) {
  PartTimes& times = profile_->parts_[static_cast<std::size_t>(part)];
  if (profile_->outer_ != nullptr) {
    profile_ = nullptr;
    return;
  }
  profile_->outer_ = this;
  times.flops += flops;
  times.bytes += bytes;
  times_ = &times;
  start_ = Clock::now();
}

void ProfileScope::close() {
  times_->seconds += seconds_since(start_);
  profile_->outer_ = nullptr;
}

}  // namespace prenorm
