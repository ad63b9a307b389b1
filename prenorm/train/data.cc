#include "prenorm/train/data.h"

namespace prenorm {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

}  // namespace

std::uint64_t fingerprint(const TrainData& data) {
  std::uint64_t hash = mix(data.train.size(), data.validation.size());
  for (const std::span<const TokenId> part : {data.train, data.validation}) {
    for (const TokenId token : part) hash = mix(hash, static_cast<std::uint32_t>(token));
  }
  return hash;
}

}  // namespace prenorm
