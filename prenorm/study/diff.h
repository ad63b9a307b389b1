// What differs between two checkpoints, tensor by tensor.
//
//   const Difference found = diff("run1", "run2", 0.0);
//   if (!found.same()) for (const TensorDifference& t : found.tensors) ...
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "prenorm/base/index.h"

namespace prenorm {

struct TensorDifference {
  enum class Kind { kOnlyInFirst, kOnlyInSecond, kShape, kDtype, kValues };
  std::string name;
  Kind kind = Kind::kValues;
  std::string first, second;  // shapes or dtypes, where these differ
  // Of floating-point tensors of one shape, over elements where both are numbers:
  double max_absolute = 0.0;
  double max_relative = 0.0;  // |a - b| / max(|a|, |b|)
  Index differing = 0;        // elements beyond the tolerance, NaN against a number among them
  Index nans_first = 0, nans_second = 0;
};

struct ConfigDifference {
  std::string key, first, second;  // values as JSON
};

struct Difference {
  Index compared = 0;                     // tensors that both have
  std::vector<TensorDifference> tensors;  // those that differ, by name
  std::vector<ConfigDifference> config;   // of model folders; a key that is missing has its default
  std::string head;                       // "tied in the first, untied in the second", or empty
  std::vector<std::string> warnings;      // NaN, which are the same as NaN

  bool same() const { return tensors.empty() && config.empty() && head.empty(); }
};

// Model folders (model_source.h) or files of tensors (tensor_file.h); names may lack the prefix
// "transformer.". Numbers at most `tolerance` apart are the same; NaN is the same as NaN. A head
// that is absent because it is tied is the same as a copy. Throws IoError and FormatError.
Difference diff(const std::filesystem::path& first, const std::filesystem::path& second,
                double tolerance);

}  // namespace prenorm
