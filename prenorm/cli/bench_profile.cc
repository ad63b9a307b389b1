#include "prenorm/cli/bench_profile.h"

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "prenorm/kernels/limits.h"

namespace prenorm::cli {
namespace {

// One line of the profile; times are of one step, the average of all.
struct Line {
  std::string name;
  double ms = 0.0, share = 0.0;
  double rate = 0.0;  // GFLOP/s or GB/s
  bool of_memory = false;
  double limit = 0.0;
  std::optional<double> of_limit;
};

std::vector<Line> lines_of(const Profile& profile, const StepTimes& times,
                           const ProfileLimits& limits, double bandwidth) {
  const double all = std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0);
  const auto steps = static_cast<double>(times.seconds.size());
  std::vector<Line> lines;
  const auto add = [&](std::string name, double seconds) -> Line& {
    lines.push_back({std::move(name), seconds / steps * 1e3, seconds / all, 0.0, false, 0.0, {}});
    return lines.back();
  };
  for (std::size_t i = 0; i < kParts; ++i) {
    const PartTimes& part = profile[static_cast<Part>(i)];
    Line& line = add(std::string(part_name(static_cast<Part>(i))), part.seconds);
    if (part.seconds <= 0.0) continue;
    if (part.flops > 0.0) {
      line.rate = part.flops / part.seconds / 1e9;
      line.limit = static_cast<Part>(i) == Part::kAttention ? limits.attention : limits.products;
    } else if (part.bytes > 0.0) {
      line.of_memory = true;
      line.rate = part.bytes / part.seconds / 1e9;
      line.limit = bandwidth;
    }
    if (line.limit > 0.0) line.of_limit = line.rate / line.limit;
  }
  add("between kernels", all - profile.seconds());
  add("idle", times.waited);
  return lines;
}

}  // namespace

Json profile_json(const Runtime& run, const Profile& profile, const StepTimes& times,
                  const ProfileLimits& limits) {
  const double bandwidth = kernels::measure_read_bandwidth(run);
  Json parts = Json::array();
  for (const Line& line : lines_of(profile, times, limits, bandwidth)) {
    Json part = {{"part", line.name}, {"ms", line.ms}, {"share", line.share}};
    if (line.of_limit) {
      part[line.of_memory ? "gb_per_second" : "gflops_per_second"] = line.rate;
      part["share_of_limit"] = *line.of_limit;
    }
    parts.push_back(part);
  }
  return {{"read_gb_per_second", bandwidth}, {"parts", parts}};
}

void print_profile(const Runtime& run, const Profile& profile, const StepTimes& times,
                   const ProfileLimits& limits, const Streams& streams) {
  const double bandwidth = kernels::measure_read_bandwidth(run);
  streams.out.print("\n{:16} {:>10} {:>8}  {}\n", "part", "ms a step", "share", "of its limit");
  for (const Line& line : lines_of(profile, times, limits, bandwidth)) {
    streams.out.print("{:16} {:>10.2f} {:>6.1f} %", line.name, line.ms, 100.0 * line.share);
    if (line.of_limit) {
      streams.out.print("  {:.0f} %: {:.1f} of {:.1f} {}", 100.0 * *line.of_limit, line.rate,
                        line.limit, line.of_memory ? "GB/s" : "GFLOP/s");
    }
    streams.out.print("\n");
  }
  streams.out.print(
      "idle is the main thread's waiting for the last piece of a loop; it is part of the lines "
      "above\n\n");
}

}  // namespace prenorm::cli
