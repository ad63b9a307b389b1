// What a model folder or a file of tensors holds: tensors, parameters, memory, arithmetic.
//
//   const Inspection found = inspect("RUN");
//   for (const TensorSummary& t : found.tensors) ...
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "prenorm/formats/dtype.h"
#include "prenorm/model/gpt_config.h"

namespace prenorm {

struct TensorSummary {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<Index> shape;
  Index elements = 0;
  std::size_t bytes = 0;
  // Of floating-point tensors: over their finite elements, and how many are not finite.
  bool has_statistics = false;
  double minimum = 0.0, maximum = 0.0, mean = 0.0, deviation = 0.0;
  Index nans = 0, infinities = 0;
};

struct ModelCost {
  std::size_t weight_bytes = 0;     // in memory, as float32
  std::size_t cache_bytes = 0;      // keys and values of one full context
  std::size_t workspace_bytes = 0;  // of a pass over one full context
  double forward_flops = 0.0;       // of that pass
};

struct Inspection {
  std::string weights_file;
  std::vector<TensorSummary> tensors;  // in the order of the file
  Index parameters = 0;                // a tied head counts once
  std::size_t tensor_bytes = 0;
  // Of model folders:
  std::optional<GptConfig> config;
  std::optional<ModelCost> cost;
  std::string tokenizer;  // its kind, or empty
  std::vector<std::string> warnings;
};

// A model folder, which must hold what its config.json says, or a file of tensors (tensor_file.h).
// What is odd but not wrong (numbers that are not finite, a tokenizer that does not load) is a
// warning. Throws IoError and FormatError.
Inspection inspect(const std::filesystem::path& path);

}  // namespace prenorm
