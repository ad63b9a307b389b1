// Tensors spread over several files, as Hugging Face saves large models: an index
// (model.safetensors.index.json, pytorch_model.bin.index.json) tells which file holds which tensor.
//
//   const TensorFile weights = read_sharded("RUN/model.safetensors.index.json");
//
// The index's "metadata" says nothing that the files do not say, and is ignored.
#pragma once
#include <filesystem>

#include "prenorm/formats/tensor_file.h"

namespace prenorm {

// Index and files must name the same tensors. A file is named by a plain name, and lies in the
// index's folder: a symbolic link may not lead out of it, but into the "blobs" of Hugging Face's
// cache, whose folders of a model are made of such links.
// Throws IoError; FormatError with the index's path, and lists of all tensors that disagree.
TensorFile read_sharded(const std::filesystem::path& index);

}  // namespace prenorm
