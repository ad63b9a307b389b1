// The bytes of a .pt file as torch.save writes it: pickled values, storages, a zip archive.
#pragma once
#include <string>
#include <vector>

#include "tests/formats/npy_bytes.h"

namespace prenorm {

inline std::string pickled(const std::string& text) {
  return "X" + little_endian(static_cast<std::uint32_t>(text.size())) + text;
}

inline std::string pickled(std::int32_t value) { return "J" + little_endian(value); }

inline std::string pickled(const std::vector<int>& tuple) {
  std::string out = "(";
  for (const int value : tuple) out += pickled(static_cast<std::int32_t>(value));
  return out + "t";
}

struct TorchTensor {
  std::string type = "FloatStorage", key = "0";
  int elements = 0;  // of the storage
  int offset = 0;
  std::vector<int> shape, strides;
};

inline std::string pickled(const TorchTensor& t) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled("storage") + "ctorch\n" + t.type + "\n" +
         pickled(t.key) + pickled("cpu") + pickled(t.elements) + "tQ" + pickled(t.offset) +
         pickled(t.shape) + pickled(t.strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
}

// An OrderedDict of pickled values, with the attribute that PyTorch gives a state dict.
inline std::string pickled_dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "ccollections\nOrderedDict\n)R(";
  for (const auto& [key, value] : items) out += pickled(key) + value;
  return out + "u}" + pickled("_metadata") + "}sb";
}

// An archive of a pickled value and storages "0", "1", …
inline std::string torch_file(const std::string& value, const std::vector<std::string>& storages) {
  std::vector<ZipMember> members = {{"a/data.pkl", "\x80\x02" + value + "."},
                                    {"a/byteorder", "little"}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    members.push_back({"a/data/" + std::to_string(i), storages[i]});
  }
  members.push_back({"a/version", "3\n"});
  return zip_file(members);
}

inline std::string floats_as_bytes(const std::vector<float>& values) {
  std::string out;
  for (const float value : values) out += little_endian(value);
  return out;
}

}  // namespace prenorm
