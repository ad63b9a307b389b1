// PyTorch's .pt and .bin files: what torch.save writes of dicts, lists, tensors and plain values.
//
//   const TorchFile file("ckpt.pt");
//   for (const Tensor& t : file.tensors()) ...               // "model.transformer.wte.weight"
//   if (const TorchScalar* n = file.scalar("model_args.n_layer")) ...
//
// The values inside each other are told by their path, keys and positions joined by dots. Nothing
// is executed: a file that names anything but tensors and plain values is refused (pickle.h). The
// older form of before PyTorch 1.6, which is no zip archive, is refused by name.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "prenorm/formats/safetensors.h"

namespace prenorm {

using TorchScalar = std::variant<std::monostate, bool, Index, double, std::string>;  // None first

class TorchFile {
 public:
  // Maps the file. Throws IoError; FormatError with path, expected and found.
  explicit TorchFile(const std::filesystem::path& path);
  // Reads bytes in memory, which must outlive the tensors; `name` stands for the path in messages.
  TorchFile(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  // In the file's order. Row-major: those with other strides are copies. A tensor that is there
  // under two names (a tied head) is listed twice, with the same bytes. Their `owner` keeps them
  // readable after this is gone where this has mapped the file.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, TorchScalar, std::less<>>& scalars() const { return scalars_; }
  const TorchScalar* scalar(std::string_view path) const;

 private:
  class Reader;
  void parse(std::span<const std::byte> bytes);

  std::string name_;
  std::shared_ptr<const MappedFile> map_;
  std::vector<Tensor> tensors_;
  std::map<std::string, TorchScalar, std::less<>> scalars_;
};

// Whether bytes are a zip archive as torch.save makes them (or the older form that is refused).
bool is_torch_file(std::span<const std::byte> bytes);

}  // namespace prenorm
