// numpy's .npz format: a zip archive with one .npy array a member, stored or deflated.
//
//   const Npz file("inputs.npz");                        // np.savez("inputs.npz", input=x)
//   for (const Tensor& t : file.tensors()) ...           // "input"
//
// What zip.h refuses is refused.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "prenorm/base/file.h"
#include "prenorm/formats/safetensors.h"

namespace prenorm {

class Npz {
 public:
  // Maps the file. Throws IoError; FormatError with path, byte offset, expected and found.
  explicit Npz(const std::filesystem::path& path);
  // Reads bytes in memory, which must outlive this; `name` stands for the path in messages.
  Npz(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  // In the order of the directory, without ".npy". Stored arrays are bytes of the file, which this
  // keeps mapped; the others own their memory.
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  void parse(std::span<const std::byte> bytes);

  std::string name_;
  MappedFile map_;
  std::vector<Tensor> tensors_;
};

}  // namespace prenorm
