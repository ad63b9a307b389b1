#include "prenorm/formats/tensor_file.h"

#include <cstring>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/npy.h"
#include "prenorm/formats/npz.h"
#include "prenorm/formats/torch_file.h"
#include "prenorm/formats/zip.h"

namespace prenorm {
namespace {

enum class Format { kSafetensors, kNpz, kNpy, kTorch };

Format format_of(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::filesystem::path extension = path.extension();
  if (extension == ".npz") return Format::kNpz;
  if (extension == ".npy") return Format::kNpy;
  if (extension == ".pt" || extension == ".pth" || extension == ".bin" || extension == ".ckpt") {
    return Format::kTorch;
  }
  if (extension == ".safetensors") {
    // The header of a valid file may be as long as the first letters of a zip archive say.
    return is_zip(bytes) && text.substr(4, 4) != std::string_view("\0\0\0\0", 4)
               ? Format::kNpz
               : Format::kSafetensors;
  }
  if (is_torch_file(bytes)) return Format::kTorch;
  if (is_zip(bytes)) return Format::kNpz;
  if (text.starts_with(kNpyMagic)) return Format::kNpy;
  return Format::kSafetensors;
}

}  // namespace

TensorFile::TensorFile(std::string name, std::vector<Tensor> tensors,
                       std::shared_ptr<const void> owner)
    : name_(std::move(name)), tensors_(std::move(tensors)), owner_(std::move(owner)) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const Tensor* TensorFile::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

void TensorFile::refuse(const Tensor& tensor, std::string_view expected,
                        std::string_view found) const {
  throw FormatError(printable(name_) + ": tensor '" + printable(tensor.name) + "': expected " +
                    std::string(expected) + ", found " + std::string(found));
}

void TensorFile::check_floating_point(const Tensor& tensor) const {
  if (dtype_is_floating_point(tensor.dtype)) return;
  refuse(tensor, "dtype F32, F16, BF16 or F64", dtype_name(tensor.dtype));
}

void TensorFile::read(const Tensor& tensor, std::span<float> out, std::size_t first) const {
  check_floating_point(tensor);
  const std::size_t size = dtype_size(tensor.dtype);
  floats_from(tensor.dtype, tensor.bytes.subspan(first * size, out.size() * size), out);
}

std::vector<float> TensorFile::floats(const Tensor& tensor) const {
  check_floating_point(tensor);
  std::vector<float> out(static_cast<std::size_t>(tensor.size()));
  read(tensor, out);
  return out;
}

std::vector<double> TensorFile::doubles(const Tensor& tensor) const {
  check_floating_point(tensor);
  std::vector<double> out(static_cast<std::size_t>(tensor.size()));
  doubles_from(tensor.dtype, tensor.bytes, out);
  return out;
}

std::vector<Index> TensorFile::integers(const Tensor& tensor) const {
  std::vector<Index> out(static_cast<std::size_t>(tensor.size()));
  if (!dtype_is_integer(tensor.dtype)) {
    refuse(tensor, "an integer dtype", dtype_name(tensor.dtype));
  }
  if (!integers_from(tensor.dtype, tensor.bytes, out)) {
    refuse(tensor, "numbers below 2^63", "a larger one");
  }
  return out;
}

TensorFile read_tensors(const std::filesystem::path& path) {
  // Moving a MappedFile keeps its pages where they are; the tensors below point into them.
  auto map = std::make_shared<MappedFile>(path);
  const std::string name = path.string();
  switch (format_of(path, map->bytes())) {
    case Format::kNpz: {
      const Npz file(map->bytes(), name);
      return TensorFile(name, file.tensors(), map);
    }
    case Format::kNpy: {
      Tensor tensor = parse_npy(map->bytes(), name);
      tensor.name = path.stem().string();
      return TensorFile(name, {std::move(tensor)}, map);
    }
    case Format::kTorch: {
      const TorchFile file(map->bytes(), name);
      return TensorFile(name, file.tensors(), map);
    }
    case Format::kSafetensors:
      break;
  }
  const Safetensors file(map->bytes(), name);
  return TensorFile(name, file.tensors(), map);
}

}  // namespace prenorm
