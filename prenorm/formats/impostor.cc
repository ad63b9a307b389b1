#include "prenorm/formats/impostor.h"

#include <algorithm>
#include <array>

namespace prenorm {
namespace {

using std::string_view_literals::operator""sv;

struct Kind {
  std::string_view first;  // letters
  std::string_view what;
};
constexpr std::array kKinds = {
    Kind{"version https://git-lfs"sv,
         "a Git LFS pointer (fetch the file itself with 'git lfs pull')"sv},
    Kind{"PK\x03\x04"sv, "a zip archive (a PyTorch file?)"sv},
    Kind{"GGUF"sv, "a GGUF file"sv},
    Kind{"lmgg"sv, "a GGML file"sv},
    Kind{"fmgg"sv, "a GGML file"sv},
    Kind{"tjgg"sv, "a GGML file"sv},
    Kind{"\x89HDF\r\n"sv, "an HDF5 file (of Keras?)"sv},
    Kind{"\x93NUMPY"sv, "a NumPy array (.npy)"sv},
    Kind{"\x80\x02"sv, "a pickle (a PyTorch file of before 1.6?)"sv},
    Kind{"\x80\x03"sv, "a pickle"sv},
    Kind{"\x80\x04"sv, "a pickle"sv},
    Kind{"\x80\x05"sv, "a pickle"sv},
    Kind{"\x1F\x8B\x08"sv, "a gzip archive (unpack it first)"sv},
    Kind{"BZh"sv, "a bzip2 archive (unpack it first)"sv},
    Kind{"\xFD\x37zXZ"sv, "an xz archive (unpack it first)"sv},
    Kind{"\x28\xB5\x2F\xFD"sv, "a Zstandard archive (unpack it first)"sv},
    Kind{"7z\xBC\xAF\x27\x1C"sv, "a 7z archive (unpack it first)"sv},
};

// A header's length below 2^32, and the header's first letter.
bool begins_as_safetensors(std::string_view text) {
  return text.size() > 8 && text.substr(4, 5) == "\0\0\0\0{"sv;
}

std::optional<std::string_view> text_kind(std::string_view text) {
  constexpr std::size_t kLooked = 16;
  if (text.substr(0, kLooked).find('\0') != std::string_view::npos) return std::nullopt;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.starts_with("<")) return "a page of HTML or XML";
  if (text.starts_with("{")) return "JSON";
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> impostor(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (begins_as_safetensors(text)) return std::nullopt;
  const auto kind =
      std::ranges::find_if(kKinds, [&](const Kind& k) { return text.starts_with(k.first); });
  if (kind != kKinds.end()) return kind->what;
  constexpr std::size_t kTarMark = 257;
  if (text.size() > kTarMark && text.substr(kTarMark).starts_with("ustar")) {
    return "a tar archive (unpack it first)";
  }
  // A small version, then a name: how ONNX writes its first two fields.
  if (text.size() > 3 && text[0] == '\x08' && text[2] == '\x12') return "an ONNX file";
  return text_kind(text);
}

}  // namespace prenorm
