#include "prenorm/study/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/tensor_file.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/config_json.h"
#include "prenorm/model/model_source.h"
#include "prenorm/text/tokenizer.h"

namespace prenorm {
namespace {

// Statistics of one tensor, a block at a time so that no copy of it is made.
void fill_statistics(const Tensor& tensor, TensorSummary& summary) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t width = dtype_size(tensor.dtype);
  std::vector<double> block(kBlock);
  double sum = 0.0, squares = 0.0;
  Index finite = 0;
  summary.minimum = std::numeric_limits<double>::infinity();
  summary.maximum = -summary.minimum;
  for (std::size_t begin = 0; begin < tensor.bytes.size(); begin += kBlock * width) {
    const auto bytes =
        tensor.bytes.subspan(begin, std::min(kBlock * width, tensor.bytes.size() - begin));
    const std::span<double> values(block.data(), bytes.size() / width);
    doubles_from(tensor.dtype, bytes, values);
    for (double value : values) {
      if (std::isnan(value)) {
        ++summary.nans;
      } else if (std::isinf(value)) {
        ++summary.infinities;
      } else {
        ++finite;
        sum += value;
        squares += value * value;
        summary.minimum = std::min(summary.minimum, value);
        summary.maximum = std::max(summary.maximum, value);
      }
    }
  }
  if (finite == 0) {
    summary.minimum = summary.maximum = 0.0;
    return;
  }
  const double count = static_cast<double>(finite);
  summary.mean = sum / count;
  summary.deviation = std::sqrt(std::max(0.0, squares / count - summary.mean * summary.mean));
  summary.has_statistics = true;
}

void summarize(const TensorFile& weights, Inspection& found) {
  found.weights_file = weights.name();
  for (const Tensor& tensor : weights.tensors()) {
    TensorSummary summary;
    summary.name = tensor.name;
    summary.dtype = tensor.dtype;
    summary.shape = tensor.shape;
    summary.elements = tensor.size();
    summary.bytes = tensor.bytes.size();
    if (dtype_is_floating_point(tensor.dtype)) fill_statistics(tensor, summary);
    if (summary.nans + summary.infinities > 0) {
      found.warnings.push_back(fmt::format("'{}' holds {} NaN and {} infinite numbers",
                                           printable(tensor.name), summary.nans,
                                           summary.infinities));
    }
    found.parameters += summary.elements;
    found.tensor_bytes += summary.bytes;
    found.tensors.push_back(std::move(summary));
  }
}

void read_model(const std::filesystem::path& folder, Inspection& found) {
  try {
    const auto model = load_pretrained(folder, Gpt::Mode::kInference);
    const GptConfig& config = model->config();
    found.config = config;
    found.parameters = model->parameters().total_size();
    ModelCost cost;
    cost.weight_bytes = static_cast<std::size_t>(found.parameters) * sizeof(float);
    cost.cache_bytes =
        static_cast<std::size_t>(2 * config.n_layer * config.block_size * config.n_embd) *
        sizeof(float);
    cost.workspace_bytes = model->workspace_bytes(1, config.block_size);
    cost.forward_flops = config.forward_flops(config.block_size);
    found.cost = cost;
  } catch (const ConfigError& error) {
    throw FormatError(printable(folder.string()) + ": " + error.what());
  }
}

void read_tokenizer(const std::filesystem::path& folder, Inspection& found) {
  if (!file_exists(folder / "tokenizer.json")) return;
  try {
    const auto tokenizer = load_tokenizer(folder);
    found.tokenizer = tokenizer->kind();
    if (tokenizer->vocab_size() > found.config->vocab_size) {
      found.warnings.push_back(fmt::format("the tokenizer has {} tokens, the model {}",
                                           tokenizer->vocab_size(), found.config->vocab_size));
    }
  } catch (const Error& error) {
    found.warnings.emplace_back(error.what());
  }
}

}  // namespace

Inspection inspect(const std::filesystem::path& path) {
  Inspection found;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    summarize(read_tensors(path), found);
    return found;
  }
  summarize(read_weights(path), found);
  read_model(path, found);
  read_tokenizer(path, found);
  return found;
}

}  // namespace prenorm
