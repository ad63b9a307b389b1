// Ops of files of tensors: safetensors of every kind of damage, casts, what is written and read.
#include <fmt/format.h>

#include <regex>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/dtype.h"
#include "prenorm/formats/safetensors.h"
#include "tests/cases/registry.h"
#include "tests/temporary_folder.h"

namespace prenorm::cases {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// --- Reading
// --------------------------------------------------------------------------------------

// What a promise asks for; either where it names both.
struct Verdict {
  bool may_accept = false, may_reject = false;

  explicit Verdict(const std::string& promise) {
    const auto begins = [&](const char* word) { return lower(promise).starts_with(word); };
    const bool rejects =
        mentions(promise, "reject") || mentions(promise, "refuse") || mentions(promise, "error");
    const bool accepts =
        mentions(promise, "accept") || mentions(promise, "load with") || mentions(promise, "loads");
    may_reject = begins("reject") || (rejects && !begins("accept")) ||
                 (begins("accept") && mentions(promise, " or ") && rejects);
    may_accept = begins("accept") || (accepts && !begins("reject")) ||
                 (begins("reject") && mentions(promise, "or load"));
    if (!may_accept && !may_reject) throw BadCase("expected.behaviour: not understood");
  }
};

// Words that a rejection is to say: those in quotes, and "Git LFS".
std::vector<std::string> words_of(const std::string& promise) {
  std::vector<std::string> words = quoted_in(promise);
  if (mentions(promise, "Git LFS")) words.push_back("Git LFS");
  return words;
}

// Reads from memory and from a file, which must agree.
void read_both(const std::string& bytes, const std::function<void(const Safetensors&)>& use) {
  const TemporaryFolder folder("tensors");
  const std::filesystem::path path = folder.path() / "case.safetensors";
  write_file_durably(path, bytes);
  const Safetensors file(path);
  const Safetensors memory(bytes_of(bytes), "memory");
  if (file.tensors().size() != memory.tensors().size()) {
    throw BadCase("a file and the same bytes in memory differ");
  }
  use(file);
}

// The tensors that expected names: NAME with values, NAME_shape.
void check_tensors(Case& c, const Safetensors& file) {
  for (const std::string& key : c.expected.keys()) {
    if (key == "behaviour" || key == "more_bytes_hex" || is_documentation(key)) continue;
    const bool shape_only = key.ends_with("_shape");
    const std::string name = shape_only ? key.substr(0, key.size() - 6) : key;
    const prenorm::Tensor* tensor = file.find(name);
    if (tensor == nullptr) {
      c.require(false, "a tensor '" + printable(name) + "'", "none");
    } else if (shape_only) {
      c.check_against(key, c.expected.at(key),
                      Array{{static_cast<Index>(tensor->shape.size())},
                            {tensor->shape.begin(), tensor->shape.end()}});
    } else if (dtype_is_floating_point(tensor->dtype)) {
      c.check(key, array_of(tensor->shape, file.floats(*tensor)));
    } else {
      const std::vector<Index> values = file.integers(*tensor);
      c.check(key, Array{tensor->shape, {values.begin(), values.end()}});
    }
  }
}

void check_accepted(Case& c, const std::string& promise, const std::string& bytes) {
  read_both(bytes, [&](const Safetensors& file) {
    check_tensors(c, file);
    for (const std::string& name : quoted_in(promise)) {
      c.require(file.find(name) != nullptr, "a tensor '" + name + "'", "none");
    }
    if (mentions(promise, "one tensor")) {
      c.require(file.tensors().size() == 1, "one tensor", std::to_string(file.tensors().size()));
    }
  });
  if (!mentions(promise, "metadata-only")) return;
  const std::string header = R"({"__metadata__":{"format":"pt"}})";
  std::string only(8, '\0');
  only[0] = static_cast<char>(header.size());
  read_both(only + header, [&](const Safetensors& file) {
    c.require(file.tensors().empty() && file.metadata().at("format") == "pt",
              "no tensor in a file of metadata");
  });
}

void safetensors_load(Case& c) {
  const std::string promise = c.promise("behaviour");
  const Verdict verdict(promise);
  std::string bytes;
  if (c.input.has("bytes_hex")) bytes = bytes_from_hex(c.input.text("bytes_hex"));
  if (c.input.has("file")) {
    const std::string stored = read_file(c.file(c.input.text("file")));
    c.require(!c.input.has("bytes_hex") || stored == bytes, "the file to hold bytes_hex");
    bytes = stored;
  } else if (!c.input.has("bytes_hex")) {
    throw BadCase("input: expected file or bytes_hex, found neither");
  }
  if (c.input.has("size")) {
    c.require(static_cast<Index>(bytes.size()) == c.input.integer("size"), "the file's size");
  }
  std::vector<std::string> files = {bytes};
  if (const Json* more = c.expected.find("more_bytes_hex")) {
    for (const Json& hex : *more) files.push_back(bytes_from_hex(hex.get<std::string>()));
  }
  if (!verdict.may_reject) {
    for (const std::string& one : files) check_accepted(c, promise, one);
    return;
  }
  for (const std::string& one : files) {
    const bool first = &one == &files.front();
    const auto read = [&] { read_both(one, [](const Safetensors&) {}); };
    if (verdict.may_accept) {
      try {
        read();
        check_accepted(c, promise, one);
        continue;
      } catch (const FormatError&) {
      }
    }
    c.require_error(fmt::format("reading {} bytes", one.size()), read,
                    first ? words_of(promise) : std::vector<std::string>());
  }
}

// --- Casts
// ----------------------------------------------------------------------------------------

void check_cast(Case& c, const std::string& name, const Array& x, std::uint16_t (*narrow)(float),
                float (*widen)(std::uint16_t)) {
  Array values{x.shape, {}};
  std::vector<std::uint16_t> bits;
  for (const double one : x.values) {
    bits.push_back(narrow(static_cast<float>(one)));
    values.values.push_back(widen(bits.back()));
  }
  c.check(name, values);
  const Json* hex = c.expected.find(name + "_bits_hex");
  if (hex == nullptr) return;
  c.require(hex->size() == bits.size(), "as many bit patterns as numbers");
  for (std::size_t i = 0; i < bits.size() && i < hex->size(); ++i) {
    const auto want = std::stoul((*hex)[i].get<std::string>(), nullptr, 16);
    c.require(bits[i] == want, fmt::format("{}_bits_hex[{}] {:#06x}", name, i, want),
              fmt::format("{:#06x}", bits[i]));
  }
}

void cast(Case& c) {
  const auto both = c.input.array("x");
  const auto to_bf16 = c.input.array("f32_to_bf16"), to_f16 = c.input.array("f32_to_f16");
  if (both || to_bf16) {
    check_cast(c, "bf16", both ? *both : *to_bf16, bf16_from_float, float_from_bf16);
  }
  if (both || to_f16) check_cast(c, "f16", both ? *both : *to_f16, f16_from_float, float_from_f16);
}

// --- Writing
// --------------------------------------------------------------------------------------

// "transpose of [[0,1,2],[3,4,5]]", "every second column of [...]", "every second row of [...]",
// or numbers.
void save_then_load(Case& c) {
  const Json& given = c.input.at("tensor");
  Floats stored;
  std::vector<Index> shape, strides;
  std::smatch found;
  const std::string text = given.is_string() ? given.get<std::string>() : "";
  static const std::regex kView(
      R"(\s*(?:the )?(transpose|every second column|every second row) of (\[.*\])\s*)");
  if (std::regex_match(text, found, kView)) {
    stored = floats_from(array_from(parse_json(found[2].str(), "input.tensor")));
    if (stored.shape.size() != 2) throw BadCase("input.tensor: expected a view of a matrix");
    const Index rows = stored.shape[0], columns = stored.shape[1];
    if (found[1] == "transpose") {
      shape = {columns, rows};
      strides = {1, columns};
    } else {
      const bool of_rows = found[1] == "every second row";
      shape = {of_rows ? ceil_div(rows, 2) : rows, of_rows ? columns : ceil_div(columns, 2)};
      strides = {of_rows ? 2 * columns : columns, of_rows ? 1 : 2};
    }
  } else {
    stored = floats_from(array_from(given));
    shape = stored.shape;
    strides.assign(shape.size(), 1);
    for (std::size_t axis = shape.size(); axis-- > 1;)
      strides[axis - 1] = strides[axis] * shape[axis];
  }
  if (const Json* wanted = c.input.find("shape");
      wanted != nullptr && shape_from(*wanted) != shape) {
    throw BadCase("input.shape: expected " + shape_name(shape));
  }
  const TemporaryFolder folder("save");
  const std::filesystem::path path = folder.path() / "case.safetensors";
  save_safetensors(path, {packed_tensor("t", shape, stored.values.data(), strides)});
  const Safetensors file(path);
  const prenorm::Tensor* tensor = file.find("t");
  c.require(tensor != nullptr && tensor->shape == shape, "the tensor that was saved");
  c.check("reloaded", array_of(tensor->shape, file.floats(*tensor)));
  const std::string bytes = read_file(path);  // the numbers at the file's end, byte for byte
  std::vector<float> last(static_cast<std::size_t>(tensor->size()));
  const std::string tail = bytes.substr(bytes.size() - last.size() * sizeof(float));
  floats_from(Dtype::kF32, bytes_of(tail), last);
  c.check("bytes_f32_in_file_order", array_of({tensor->size()}, last));
}

}  // namespace

void add_file_ops(Registry& ops) {
  ops["safetensors_load"] = safetensors_load;
  ops["cast"] = cast;
  ops["save_then_load"] = save_then_load;
}

}  // namespace prenorm::cases
