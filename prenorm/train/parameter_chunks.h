// The parameters of a registry cut into the chunks whose squared gradients are summed by themselves
// (kernels::kSquaresChunk), and the chunks dealt into parts of about equal size, each of them a
// contiguous piece of the registry's values, gradients and moments.
//
//   const ParameterChunks chunks(model.parameters(), 4);
//   const auto mine = model.parameters().values().subspan(chunks.begin(1), chunks.size(1));
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "prenorm/tensor/parameter.h"

namespace prenorm {

class ParameterChunks {
 public:
  // Requires: the registry has its memory.
  ParameterChunks(const ParameterRegistry& parameters, int parts);

  int parts() const { return static_cast<int>(first_.size()) - 1; }
  // Of a part, in floats from the registry's beginning; padding between parameters belongs to the
  // part before it.
  std::size_t begin(int part) const { return offset(first_[at(part)]); }
  std::size_t end(int part) const { return offset(first_[at(part) + 1]); }
  std::size_t size(int part) const { return end(part) - begin(part); }
  // Chunks of a part, and of all.
  std::size_t count(int part) const { return first_[at(part) + 1] - first_[at(part)]; }
  std::size_t count() const { return chunks_.size(); }

  // The square root of Σ over parameters of Σ over their chunks, each in ascending order.
  double norm(std::span<const double> squares) const;

 private:
  struct Chunk {
    std::size_t offset = 0;
    bool begins_parameter = false;
  };
  static std::size_t at(int part) { return static_cast<std::size_t>(part); }
  std::size_t offset(std::size_t chunk) const {
    return chunk < chunks_.size() ? chunks_[chunk].offset : total_;
  }

  std::vector<Chunk> chunks_;
  std::vector<std::size_t> first_;  // chunk of each part, and the end
  std::size_t total_ = 0;           // floats of the registry, padding included
};

}  // namespace prenorm
