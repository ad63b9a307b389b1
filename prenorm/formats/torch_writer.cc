#include "prenorm/formats/torch_writer.h"

#include <zlib.h>

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"

namespace prenorm {
namespace {

constexpr std::uint64_t kAlignment = 64;  // of the storages' bytes, as torch.save aligns them

template <typename T>
std::string le(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

std::string_view storage_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "DoubleStorage";
    case Dtype::kF32:
      return "FloatStorage";
    case Dtype::kF16:
      return "HalfStorage";
    case Dtype::kBF16:
      return "BFloat16Storage";
    default:
      throw Error("torch file: expected tensors of F64, F32, F16 or BF16, found " +
                  std::string(dtype_name(dtype)));
  }
}

// A zip archive of stored members with 64-bit sizes, written front to back.
class ZipWriter {
 public:
  explicit ZipWriter(FileWriter& out) : out_(out) {}

  void add(const std::string& name, std::span<const std::byte> bytes) {
    const auto crc = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    const std::uint64_t size = bytes.size(), local = at_;
    std::string extra = le<std::uint16_t>(1) + le<std::uint16_t>(16) + le(size) + le(size);
    // The padding is a field of its own, "FB" as PyTorch calls it.
    const std::uint64_t begin = at_ + 30 + name.size() + extra.size() + 4;
    const std::uint64_t padding = (kAlignment - begin % kAlignment) % kAlignment;
    const std::string padded =
        extra + "FB" + le(static_cast<std::uint16_t>(padding)) + std::string(padding, 'Z');
    write(le(0x04034b50u) + fields(crc, 0xFFFFFFFFu) + le(static_cast<std::uint16_t>(name.size())) +
          le(static_cast<std::uint16_t>(padded.size())) + name + padded);
    out_.write(bytes);
    at_ += size;
    extra = le<std::uint16_t>(1) + le<std::uint16_t>(24) + le(size) + le(size) + le(local);
    directory_ += le(0x02014b50u) + le<std::uint16_t>(45) + fields(crc, 0xFFFFFFFFu) +
                  le(static_cast<std::uint16_t>(name.size())) +
                  le(static_cast<std::uint16_t>(extra.size())) + std::string(10, '\0') +
                  le(0xFFFFFFFFu) + name + extra;
    ++members_;
  }
  void add(const std::string& name, std::string_view text) {
    add(name, std::as_bytes(std::span(text)));
  }

  void finish() {
    const std::uint64_t begin = at_, size = directory_.size(), end64 = begin + size;
    write(directory_);
    write(le(0x06064b50u) + le<std::uint64_t>(44) + le<std::uint16_t>(45) + le<std::uint16_t>(45) +
          std::string(8, '\0') + le(members_) + le(members_) + le(size) + le(begin));
    write(le(0x07064b50u) + std::string(4, '\0') + le(end64) + le(1u));
    write(le(0x06054b50u) + std::string(4, '\0') + std::string(12, '\xff') + std::string(2, '\0'));
  }

 private:
  // Version to flags, method, time, date, checksum and sizes.
  static std::string fields(std::uint32_t crc, std::uint32_t size) {
    // 1 January 1980, the earliest date that there is.
    return le<std::uint16_t>(45) + std::string(6, '\0') + le<std::uint16_t>(0x21) + le(crc) +
           le(size) + le(size);
  }
  void write(const std::string& text) {
    out_.write(text);
    at_ += text.size();
  }

  FileWriter& out_;
  std::string directory_;
  std::uint64_t at_ = 0, members_ = 0;
};

}  // namespace

TorchWriter::TorchWriter() : pickle_("\x80\x02}(") {}

void TorchWriter::text(std::string_view text) {
  pickle_ += "X" + le(static_cast<std::uint32_t>(text.size()));
  pickle_ += text;
}

void TorchWriter::integer(Index value) {
  if (value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max()) {
    pickle_ += "J" + le(static_cast<std::int32_t>(value));
  } else {
    pickle_ += std::string("\x8a\x08") + le(static_cast<std::int64_t>(value));
  }
}

void TorchWriter::scalar(const TorchScalar& value) {
  if (const auto* truth = std::get_if<bool>(&value)) {
    pickle_ += *truth ? "\x88" : "\x89";
  } else if (const auto* number = std::get_if<Index>(&value)) {
    integer(*number);
  } else if (const auto* real = std::get_if<double>(&value)) {
    const std::string bytes = le(*real);
    pickle_ += "G" + std::string(bytes.rbegin(), bytes.rend());
  } else if (const auto* words = std::get_if<std::string>(&value)) {
    text(*words);
  } else {
    pickle_ += "N";
  }
}

void TorchWriter::tuple(const std::vector<Index>& values) {
  pickle_ += "(";
  for (const Index value : values) integer(value);
  pickle_ += "t";
}

void TorchWriter::begin_dict(std::string_view key) {
  text(key);
  pickle_ += "}(";
}

void TorchWriter::end_dict() { pickle_ += "u"; }

void TorchWriter::add(std::string_view key, const TorchScalar& value) {
  text(key);
  scalar(value);
}

void TorchWriter::add(const Tensor& tensor) {
  const auto [it, added] = storage_of_.emplace(tensor.bytes.data(), storages_.size());
  if (added) storages_.push_back(tensor.bytes);
  text(tensor.name);
  pickle_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
  text("storage");
  pickle_ += "ctorch\n" + std::string(storage_type(tensor.dtype)) + "\n";
  text(std::to_string(it->second));
  text("cpu");
  integer(tensor.size());
  pickle_ += "tQ";
  integer(0);
  tuple(tensor.shape);
  std::vector<Index> strides(tensor.shape.size(), 1);
  for (std::size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * tensor.shape[i];
  tuple(strides);
  pickle_ +=
      "\x89"
      "ccollections\nOrderedDict\n)RtR";
}

void TorchWriter::save(const std::filesystem::path& path) {
  write_file_durably(path, [&](FileWriter& out) {
    ZipWriter zip(out);
    const std::string folder = "archive/";
    zip.add(folder + "data.pkl", pickle_ + "u.");
    zip.add(folder + "byteorder", "little");
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      zip.add(folder + "data/" + std::to_string(i), storages_[i]);
    }
    zip.add(folder + "version", "3\n");
    zip.finish();
  });
}

}  // namespace prenorm
