#include "prenorm/formats/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <unordered_map>
#include <utility>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/pickle.h"
#include "prenorm/formats/zip.h"

namespace prenorm {
namespace {

using Kind = PickleValue::Kind;

struct StorageType {
  std::string_view name;
  Dtype dtype;
};

constexpr std::array kStorageTypes = {
    StorageType{"torch.FloatStorage", Dtype::kF32},
    StorageType{"torch.DoubleStorage", Dtype::kF64},
    StorageType{"torch.HalfStorage", Dtype::kF16},
    StorageType{"torch.BFloat16Storage", Dtype::kBF16},
    StorageType{"torch.LongStorage", Dtype::kI64},
    StorageType{"torch.IntStorage", Dtype::kI32},
    StorageType{"torch.ShortStorage", Dtype::kI16},
    StorageType{"torch.CharStorage", Dtype::kI8},
    StorageType{"torch.ByteStorage", Dtype::kU8},
    StorageType{"torch.BoolStorage", Dtype::kBool},
};

constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kSize = "torch.Size";

// All that a file may name. The dtypes stand in options beside the tensors, and say nothing here.
constexpr std::array kNames = [] {
  std::array<std::string_view, kStorageTypes.size() + 7> names{};
  std::size_t i = 0;
  for (const StorageType& type : kStorageTypes) names[i++] = type.name;
  for (const std::string_view name :
       {kTensor, kParameter, kSize, std::string_view("torch.float32"),
        std::string_view("torch.float64"), std::string_view("torch.float16"),
        std::string_view("torch.bfloat16")}) {
    names[i++] = name;
  }
  return names;
}();

// The beginning of what torch.save wrote before version 1.6: a pickled number of 10 bytes.
constexpr std::string_view kOlderForm = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

constexpr int kDeepest = 32;            // values inside each other
constexpr std::size_t kMost = 1 << 18;  // values in all, as often as they are met
constexpr std::size_t kMostPathBytes = 16u << 20;
constexpr std::size_t kMostAxes = 64;
// A few tensors of the same bytes are a tied head; many would make a small file large. What the
// tensors may take together, as copies too:
constexpr std::uint64_t kTensorsFloor = 16u << 20, kTensorsRatio = 4;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

class TorchFile::Reader {
 public:
  Reader(TorchFile& file, std::span<const std::byte> bytes)
      : file_(file),
        archive_(bytes, file.name_),
        budget_(kTensorsFloor + kTensorsRatio * bytes.size()) {
    const ZipEntry* pickle = nullptr;
    for (const ZipEntry& entry : archive_.entries()) {
      if (entry.name.ends_with("/data.pkl")) {
        if (pickle != nullptr) archive_.refuse("one data.pkl", "two", entry.at);
        pickle = &entry;
      }
      if (entry.name.ends_with("/constants.pkl")) {
        archive_.refuse("tensors as torch.save writes them", "a TorchScript program", entry.at);
      }
      if (entry.deflated) archive_.refuse("stored members", "a deflated one", entry.at);
      entries_.emplace(entry.name, &entry);
    }
    if (pickle == nullptr) archive_.refuse("a member data.pkl", "none", 0);
    folder_ = pickle->name.substr(0, pickle->name.size() - std::string_view("data.pkl").size());
    check_byte_order();
    const Pickle values(archive_.read(*pickle).bytes,
                        archive_.name() + ": " + printable(pickle->name), kNames);
    walk(values.root(), "", 0);
  }

 private:
  [[noreturn]] void refuse(std::string_view path, std::string_view expected,
                           std::string_view found) const {
    throw FormatError(archive_.name() + ": '" + printable(path) + "': expected " +
                      std::string(expected) + ", found " + std::string(found));
  }

  const ZipEntry* find(const std::string& name) const {
    const auto it = entries_.find(std::string(folder_) + name);
    return it == entries_.end() ? nullptr : it->second;
  }

  void check_byte_order() const {
    const ZipEntry* order = find("byteorder");
    if (order == nullptr) return;
    const std::string_view found = text_of(archive_.read(*order).bytes);
    if (found != "little") {
      archive_.refuse("byte order little", printable(found), order->data);
    }
  }

  void walk(const PickleValue& value, const std::string& path, int depth) {
    if (depth > kDeepest) refuse(path, "values at most 32 deep", "more");
    if (++met_ > kMost) refuse(path, "at most 262,144 values", "more");
    path_bytes_ += path.size();
    if (path_bytes_ > kMostPathBytes) refuse(path.substr(0, 40), "shorter names", "too much text");
    switch (value.kind) {
      case Kind::kDict:
        for (std::size_t i = 0; i < value.items.size(); i += 2) {
          walk(*value.items[i + 1], join(path, key_text(*value.items[i], path)), depth + 1);
        }
        break;
      case Kind::kList:
      case Kind::kTuple:
        for (std::size_t i = 0; i < value.items.size(); ++i) {
          walk(*value.items[i], join(path, std::to_string(i)), depth + 1);
        }
        break;
      case Kind::kCall:
        if (value.items[0]->text == kSize) {
          walk(*value.items[1], path, depth + 1);
        } else {
          add_tensor(value, path, depth);
        }
        break;
      case Kind::kPersistent:
        refuse(path, "tensors and plain values", "a storage alone");
      default:
        add_scalar(value, path);
    }
  }

  static std::string join(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
  }
  std::string key_text(const PickleValue& key, std::string_view path) const {
    if (key.kind == Kind::kString) {
      if (key.text.empty() || key.text.find('\0') != std::string_view::npos) {
        refuse(path, "keys that are not empty and hold no NUL", "'" + printable(key.text) + "'");
      }
      return std::string(key.text);
    }
    if (key.kind == Kind::kInteger) return std::to_string(key.integer);
    refuse(path, "keys that are strings or whole numbers", "another key");
  }

  void add_name(const std::string& path) {
    if (!names_.insert(path).second) refuse(path, "each name once", "it twice");
  }

  void add_scalar(const PickleValue& value, const std::string& path) {
    add_name(path);
    TorchScalar scalar;
    switch (value.kind) {
      case Kind::kBool:
        scalar = value.truth;
        break;
      case Kind::kInteger:
        scalar = Index{value.integer};
        break;
      case Kind::kReal:
        scalar = value.real;
        break;
      case Kind::kString:
      case Kind::kName:
        scalar = std::string(value.text);
        break;
      default:
        break;
    }
    file_.scalars_.emplace(path, std::move(scalar));
  }

  std::vector<Index> sizes(const PickleValue& value, const std::string& path) const {
    if (value.kind != Kind::kTuple) refuse(path, "a tuple of sizes", "another value");
    if (value.items.size() > kMostAxes) refuse(path, "at most 64 axes", "more");
    std::vector<Index> out;
    for (const PickleValue* item : value.items) {
      if (item->kind != Kind::kInteger || item->integer < 0) {
        refuse(path, "sizes and strides from 0", "another value");
      }
      out.push_back(item->integer);
    }
    return out;
  }

  struct Storage {
    Dtype dtype;
    std::span<const std::byte> bytes;
    Index elements = 0;
  };

  // The id of a storage: ('storage', type, key, device, elements).
  Storage storage(const PickleValue& value, const std::string& path) {
    if (value.kind != Kind::kPersistent || value.items[0]->kind != Kind::kTuple ||
        value.items[0]->items.size() != 5) {
      refuse(path, "a storage", "another value");
    }
    const auto& id = value.items[0]->items;
    if (id[1]->kind != Kind::kName || id[2]->kind != Kind::kString ||
        id[4]->kind != Kind::kInteger || id[4]->integer < 0) {
      refuse(path, "a storage's type, key and size", "other values");
    }
    const auto type = std::ranges::find(kStorageTypes, id[1]->text, &StorageType::name);
    if (type == kStorageTypes.end()) refuse(path, "a storage's type", printable(id[1]->text));
    const std::string member = "data/" + std::string(id[2]->text);
    const ZipEntry* entry = find(member);
    if (entry == nullptr) refuse(path, "a member '" + printable(member) + "'", "none");
    const auto found = storages_.find(member);
    const std::span<const std::byte> bytes =
        found == storages_.end() ? storages_[member] = archive_.read(*entry).bytes : found->second;
    const auto wanted = checked_mul(id[4]->integer, static_cast<Index>(dtype_size(type->dtype)));
    if (!wanted || static_cast<std::uint64_t>(*wanted) != bytes.size()) {
      refuse(path, std::to_string(id[4]->integer) + " elements of " + std::string(id[1]->text),
             std::to_string(bytes.size()) + " bytes in '" + printable(member) + "'");
    }
    return {type->dtype, bytes, id[4]->integer};
  }

  void add_tensor(const PickleValue& call, const std::string& path, int depth) {
    const PickleValue& arguments = *call.items[1];
    if (call.items[0]->text == kParameter && arguments.items.size() == 3 && depth <= kDeepest &&
        arguments.items[0]->kind == Kind::kCall) {
      return add_tensor(*arguments.items[0], path, depth + 1);
    }
    if (call.items[0]->text != kTensor || arguments.items.size() < 6 ||
        arguments.items[1]->kind != Kind::kInteger || arguments.items[1]->integer < 0) {
      refuse(path, "a tensor", "a call of '" + printable(call.items[0]->text) + "'");
    }
    add_name(path);
    const Storage from = storage(*arguments.items[0], path);
    Tensor tensor;
    tensor.name = path;
    tensor.dtype = from.dtype;
    tensor.shape = sizes(*arguments.items[2], path);
    place(tensor, from, arguments.items[1]->integer, sizes(*arguments.items[3], path), path);
    if (tensor.owner == nullptr) tensor.owner = file_.map_;
    file_.tensors_.push_back(std::move(tensor));
  }

  // Finds the bytes: in the storage itself, or as a copy where the strides are not row-major.
  void place(Tensor& tensor, const Storage& from, Index offset, const std::vector<Index>& strides,
             const std::string& path) {
    if (strides.size() != tensor.shape.size()) refuse(path, "a stride for each axis", "others");
    std::optional<Index> count = 1, last = offset;  // the last element's place
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
      const Index d = tensor.shape[axis];
      if (count) count = checked_mul(*count, d);
      const auto reach = checked_mul(std::max<Index>(d - 1, 0), strides[axis]);
      last = last && reach ? checked_add(*last, *reach) : std::nullopt;
    }
    const auto width = static_cast<Index>(dtype_size(tensor.dtype));
    const auto size = count ? checked_mul(*count, width) : std::nullopt;
    if (!size || !last || (*count > 0 && *last >= from.elements)) {
      refuse(path, "a tensor inside its storage of " + std::to_string(from.elements) + " elements",
             "shape " + printable(shape_text(tensor.shape)) + " with strides " +
                 printable(shape_text(strides)));
    }
    if (*count == 0) return;
    taken_ += static_cast<std::uint64_t>(*size);
    if (taken_ > budget_) {
      refuse(path, "tensors of at most " + std::to_string(budget_) + " bytes together", "more");
    }
    Index packed = 1;
    bool row_major = true;
    for (std::size_t axis = strides.size(); axis-- > 0; packed *= tensor.shape[axis]) {
      row_major = row_major && (tensor.shape[axis] == 1 || strides[axis] == packed);
    }
    if (row_major) {
      tensor.bytes = from.bytes.subspan(static_cast<std::size_t>(offset * width),
                                        static_cast<std::size_t>(*size));
      return;
    }
    auto copy = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(*size));
    std::vector<Index> at(strides.size(), 0);
    Index place = offset;
    for (Index i = 0; i < *count; ++i) {
      std::memcpy(copy->data() + i * width, from.bytes.data() + place * width,
                  static_cast<std::size_t>(width));
      for (std::size_t axis = at.size(); axis-- > 0;) {
        if (++at[axis] < tensor.shape[axis]) {
          place += strides[axis];
          break;
        }
        place -= strides[axis] * (tensor.shape[axis] - 1);
        at[axis] = 0;
      }
    }
    tensor.bytes = *copy;
    tensor.owner = std::move(copy);
  }

  TorchFile& file_;
  ZipArchive archive_;
  std::unordered_map<std::string_view, const ZipEntry*> entries_;
  std::unordered_map<std::string, std::span<const std::byte>> storages_;
  std::string_view folder_;
  std::set<std::string, std::less<>> names_;
  std::uint64_t budget_, taken_ = 0;
  std::size_t met_ = 0, path_bytes_ = 0;
};

TorchFile::TorchFile(const std::filesystem::path& path)
    : name_(path.string()), map_(std::make_shared<const MappedFile>(path)) {
  parse(map_->bytes());
}

TorchFile::TorchFile(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)) {
  parse(bytes);
}

void TorchFile::parse(std::span<const std::byte> bytes) {
  if (text_of(bytes).starts_with(kOlderForm)) {
    throw FormatError(name_ +
                      ": expected a zip archive, as torch.save writes since PyTorch 1.6, found its "
                      "older form: load it there and save it again");
  }
  Reader(*this, bytes);
}

const TorchScalar* TorchFile::scalar(std::string_view path) const {
  const auto it = scalars_.find(path);
  return it == scalars_.end() ? nullptr : &it->second;
}

bool is_torch_file(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  // The first member's name: NAME/data.pkl, in older archives NAME/version or another.
  constexpr std::size_t kNameAt = 30, kNameSizeAt = 26;
  if (text.starts_with(kOlderForm)) return true;
  if (!is_zip(bytes) || text.size() < kNameAt) return false;
  std::uint16_t size = 0;
  std::memcpy(&size, text.data() + kNameSizeAt, sizeof size);
  const std::string_view name = text.substr(kNameAt, size);
  return name.find('/') != std::string_view::npos && !name.ends_with(".npy");
}

}  // namespace prenorm
