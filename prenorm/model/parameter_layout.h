// The parameters of a layer as other programs name and lay them out, and their places in ours.
//
//   const TensorFile file = read_tensors("block.safetensors");
//   const ParameterLayout layout(LayerKind::kBlock, file);
//   const ParameterValues values = layout.read();             // "h.0.attn.c_attn.weight", …
//   for (const LaidOutTensor& t : layout.tensors()) save(t.tensor->name, layout.take(t,
//   gradients));
//
// Two styles are recognised from the names. PyTorch's: in_proj_weight, out_proj, linear1, linear2,
// norm1, norm2, layers.N, norm (torch.nn.TransformerEncoder), matrices [out, in]. Hugging Face's
// GPT-2: ln_1, attn.c_attn, attn.c_proj, ln_2, mlp.c_fc, mlp.c_proj, h.N, ln_f, matrices [in, out].
// What all names begin with ("transformer.h.3.", "encoder.") does not matter. The biases of
// all matrices, those of all norms and the norms' weights may be missing; GPT-2's mask buffers
// (attn.bias, attn.masked_bias) are passed over.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/formats/tensor_file.h"
#include "prenorm/model/parameter_names.h"
#include "prenorm/reference/gpt_parameters.h"

namespace prenorm {

// Numbers of parameters by our names; matrices [in, out], with q, k, v packed in this order.
using ParameterValues = reference::ParameterMap<double>;

// A tensor of the file and where it goes.
struct LaidOutTensor {
  const Tensor* tensor = nullptr;
  std::string parameter;    // our name
  bool transposed = false;  // [out, in] in the file
  int part = -1;            // 0, 1, 2: only the q, k or v third of the parameter's columns
};

class ParameterLayout {
 public:
  // `width`: the features of the layer's input, where known: it helps to tell which of two tensors
  // that disagree is wrong. The file must outlive this.
  // Throws FormatError naming a tensor that is missing, unexpected or of another shape.
  ParameterLayout(LayerKind kind, const TensorFile& file, std::optional<Index> width = {});

  const std::vector<LaidOutTensor>& tensors() const { return tensors_; }
  std::optional<Index> width() const { return width_; }  // C, where a tensor tells it
  std::optional<Index> inner() const { return inner_; }  // F
  Index layers() const { return layers_; }               // of a stack; of a block 1
  bool has_final_norm() const;                           // of a stack

  // The values by our names. Throws FormatError for a dtype that is not floating-point.
  ParameterValues read() const;
  // The numbers of one tensor, in its own layout and shape, out of a map by our names.
  reference::Tensor<double> take(const LaidOutTensor& place, const ParameterValues& values) const;

 private:
  class Recognizer;

  const TensorFile* file_;
  std::vector<LaidOutTensor> tensors_;
  std::optional<Index> width_, inner_;
  Index layers_ = 0;
};

}  // namespace prenorm
