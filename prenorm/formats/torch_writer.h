// Writing PyTorch's .pt files: a dict of plain values and dicts of tensors, which torch.load reads
// with weights_only=True.
//
//   TorchWriter writer;
//   writer.begin_dict("model");
//   writer.add(tensor);             // model["transformer.wte.weight"]
//   writer.end_dict();
//   writer.add("iter_num", Index{0});
//   writer.save("ckpt.pt");
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/formats/torch_file.h"

namespace prenorm {

class TorchWriter {
 public:
  TorchWriter();

  void begin_dict(std::string_view key);
  void end_dict();
  void add(std::string_view key, const TorchScalar& value);
  // Under its name; its bytes must stay until save(). Tensors with the same bytes share a storage,
  // so that a tied head stays tied. Requires a dtype that PyTorch has a storage of: the
  // floating-point ones.
  void add(const Tensor& tensor);

  // Writes the file durably; the same calls give the same bytes. Throws IoError.
  void save(const std::filesystem::path& path);

 private:
  void text(std::string_view text);
  void integer(Index value);
  void scalar(const TorchScalar& value);
  void tuple(const std::vector<Index>& values);

  std::string pickle_;
  std::vector<std::span<const std::byte>> storages_;
  std::map<const std::byte*, std::size_t> storage_of_;
};

}  // namespace prenorm
