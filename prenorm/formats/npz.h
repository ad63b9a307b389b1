// numpy's .npz format: a zip archive with one .npy array a member, stored or deflated.
//
//   const Npz file("inputs.npz");                        // np.savez("inputs.npz", input=x)
//   for (const Tensor& t : file.tensors()) ...           // "input"
//
// The reader follows the archive's directory and refuses whatever disagrees with it: members that
// overlap or leave the file, sizes or checksums that are wrong, encryption, other compressions,
// names twice, bytes behind the end. An archive may not inflate to more than 64 times its size and
// 32 MiB, so that a small hostile file stays small.
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

// Whether bytes begin as a zip archive does.
bool is_zip(std::span<const std::byte> bytes);

}  // namespace prenorm
