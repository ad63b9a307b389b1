// The model that a diagnosis replays: the weights as float, as they are used everywhere else, and
// what the configuration says, as options of the textbook.
//
//   const DiagnoseModel model = read_diagnose_model("RUN");
//   reference::GptOptions options = model.options();      // the right model
//   reference::make_mistake(options, {.name = "norm.ddof"});
//
// With the parameters of a block or a stack there is no embedding, no final norm unless the file
// has one, and no head.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "prenorm/model/model_source.h"
#include "prenorm/reference/gpt.h"
#include "prenorm/study/apply.h"

namespace prenorm {

using Values = reference::Tensor<double>;
using Floats = reference::Tensor<float>;

struct DiagnoseModel {
  reference::GptSettings settings;
  bool causal = true;
  std::vector<std::optional<double>> scales;  // of the attention scores, one a layer; nothing: 1/√D
  reference::GptParameters<float> parameters;
  bool has_embedding = true, has_final_norm = true, has_head = true;

  Index layers() const { return settings.n_layer; }
  Index width() const;
  Index inner() const;  // F
  // The vocabulary of the head; 0 where there is none.
  Index vocabulary() const;
  // What the configuration says.
  reference::GptOptions options() const;
};

// A model folder or checkpoint file, of any layout that model_source.h reads. Throws FormatError
// listing tensors that are missing, unexpected or of another shape (with a hint where a matrix is
// transposed), for NaN among the weights, and what reading throws.
DiagnoseModel read_diagnose_model(const std::filesystem::path& path, const SourceHints& hints = {});

// The parameters of one block or of a stack, of any layout that parameter_layout.h reads. `width`
// is the input's. Throws FormatError, and ConfigError without options.heads.
DiagnoseModel diagnose_block_model(const TensorFile& parameters, const ApplyOptions& options,
                                   Index width);

// The same with every parameter rounded.
DiagnoseModel rounded(const DiagnoseModel& model, reference::Numbers numbers);

}  // namespace prenorm
