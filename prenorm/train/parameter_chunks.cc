#include "prenorm/train/parameter_chunks.h"

#include <algorithm>
#include <cmath>

#include "prenorm/kernels/adamw.h"

namespace prenorm {

ParameterChunks::ParameterChunks(const ParameterRegistry& parameters, int parts)
    : total_(parameters.values().size()) {
  constexpr auto kChunk = static_cast<std::size_t>(kernels::kSquaresChunk);
  for (const Parameter& p : parameters) {
    const auto begin = static_cast<std::size_t>(p.value.data() - parameters.values().data());
    for (std::size_t at = 0; at < p.value.size(); at += kChunk) {
      chunks_.push_back({begin + at, at == 0});
    }
  }
  // Each part ends at the chunk nearest to its fair share.
  first_.push_back(0);
  for (int part = 1; part < parts; ++part) {
    const std::size_t fair =
        total_ / at(parts) * at(part) + total_ % at(parts) * at(part) / at(parts);
    std::size_t chunk = first_.back();
    while (chunk < chunks_.size() && offset(chunk + 1) <= fair) ++chunk;
    if (chunk < chunks_.size() && offset(chunk + 1) - fair < fair - std::min(fair, offset(chunk))) {
      ++chunk;
    }
    first_.push_back(chunk);
  }
  first_.push_back(chunks_.size());
}

double ParameterChunks::norm(std::span<const double> squares) const {
  double sum = 0.0, parameter = 0.0;
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (chunks_[chunk].begins_parameter) {
      sum += parameter;
      parameter = 0.0;
    }
    parameter += squares[chunk];
  }
  return std::sqrt(sum + parameter);
}

}  // namespace prenorm
