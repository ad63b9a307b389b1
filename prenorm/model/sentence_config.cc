#include "prenorm/model/sentence_config.h"

#include <array>
#include <string>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/folder.h"
#include "prenorm/text/json_reader.h"

namespace prenorm {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"mean", "cls", "max"};

struct PoolingKey {
  const char* key;
  std::optional<Pooling> pooling;  // none: not supported
};
constexpr std::array kPoolingKeys = {
    PoolingKey{"pooling_mode_mean_tokens", Pooling::kMean},
    PoolingKey{"pooling_mode_cls_token", Pooling::kCls},
    PoolingKey{"pooling_mode_max_tokens", Pooling::kMax},
    PoolingKey{"pooling_mode_mean_sqrt_len_tokens", std::nullopt},
    PoolingKey{"pooling_mode_weightedmean_tokens", std::nullopt},
    PoolingKey{"pooling_mode_lasttoken", std::nullopt},
};

// One JSON file; empty where there is none.
class File : JsonReader {
 public:
  explicit File(const std::filesystem::path& path)
      : JsonReader(path.string()), exists_(file_exists(path)) {
    if (exists_) json_ = parse_json(read_regular_file(path), name());
  }
  using JsonReader::in_quotes;
  using JsonReader::member;
  using JsonReader::refuse;
  using JsonReader::shown;

  bool exists() const { return exists_; }
  const Json& json() const { return json_; }
  const Json& at(const char* key) const { return member(json_, key); }

  bool flag(const char* key) const {
    const Json& value = at(key);
    if (!value.is_null() && !value.is_boolean()) {
      refuse(std::string(key) + " true or false", shown(value));
    }
    return value == true;
  }

 private:
  bool exists_;
  Json json_;
};

Pooling read_pooling(const std::filesystem::path& path) {
  const File file(path);
  if (!file.exists()) throw IoError(path.string() + ": expected a file, found none");
  if (const Json& mode = file.at("pooling_mode"); !mode.is_null()) {
    const auto pooling =
        mode.is_string() ? pooling_from_name(mode.get<std::string>()) : std::nullopt;
    if (!pooling) file.refuse("pooling_mode mean, cls or max", File::shown(mode));
    return *pooling;
  }
  std::optional<PoolingKey> chosen;
  for (const PoolingKey& mode : kPoolingKeys) {
    if (!file.flag(mode.key)) continue;
    if (chosen) {
      file.refuse("one pooling mode", std::string(chosen->key) + " and " + mode.key);
    }
    chosen = mode;
  }
  // sentence-transformers' default.
  if (!chosen) return Pooling::kMean;
  if (!chosen->pooling) file.refuse("mean, cls or max pooling", chosen->key);
  return *chosen->pooling;
}

void read_transformer(const std::filesystem::path& folder, SentenceConfig& config) {
  config.transformer = folder;
  const File file(folder / "sentence_bert_config.json");
  if (!file.exists()) return;
  if (file.flag("do_lower_case")) {
    file.refuse("do_lower_case false: the tokenizer lower-cases where it is to be", "true");
  }
  const Json& length = file.at("max_seq_length");
  if (length.is_null()) return;
  if (!length.is_number_unsigned() || length.get<std::uint64_t>() < 3 ||
      length.get<std::uint64_t>() > 1u << 24) {
    file.refuse("max_seq_length of at least 3", File::shown(length));
  }
  config.max_seq_length = length.get<Index>();
}

// A module's files, links to elsewhere in the folder among them. Throws FormatError.
void check_links(const std::filesystem::path& folder, const std::filesystem::path& module) {
  std::error_code none;
  if (!std::filesystem::is_directory(folder / module, none)) return;
  for (const std::filesystem::path& file : list_folder(folder / module)) {
    if (std::filesystem::is_symlink(file, none) &&
        !lies_inside(folder, (module / file.filename()).string())) {
      throw FormatError(file.string() + ": expected a file in the model's folder, found a link " +
                        "that leads out");
    }
  }
}

// "Pooling" of sentence_transformers.models.Pooling.
std::string last_name(const Json& type) {
  const std::string name = type.is_string() ? type.get<std::string>() : "";
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

std::string_view pooling_name(Pooling pooling) { return kNames[static_cast<std::size_t>(pooling)]; }

std::optional<Pooling> pooling_from_name(std::string_view name) {
  for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kMax}) {
    if (pooling_name(pooling) == name) return pooling;
  }
  return std::nullopt;
}

SentenceConfig load_sentence_config(const std::filesystem::path& folder) {
  SentenceConfig config;
  const File prompts(folder / "config_sentence_transformers.json");
  if (prompts.exists() && !prompts.at("default_prompt_name").is_null()) {
    prompts.refuse("no default_prompt_name", File::shown(prompts.at("default_prompt_name")));
  }
  const File modules(folder / "modules.json");
  if (!modules.exists()) {
    read_transformer(folder, config);
    return config;
  }
  if (!modules.json().is_array()) modules.refuse("a list of modules", File::shown(modules.json()));
  std::string found;
  for (const Json& module : modules.json()) {
    const Json& path = modules.member(module, "path");
    if (!path.is_string()) modules.refuse("a path in each module", File::shown(module));
    const auto& inside = path.get_ref<const std::string&>();
    if (!lies_inside(folder, inside)) {
      modules.refuse("modules inside the folder", File::in_quotes(inside));
    }
    const std::filesystem::path place = folder / inside;
    if (!inside.empty()) check_links(folder, inside);
    const std::string type = last_name(modules.member(module, "type"));
    found += (found.empty() ? "" : ", ") + printable(type, 40);
    if (type == "Transformer") read_transformer(place, config);
    if (type == "Pooling") config.pooling = read_pooling(place / "config.json");
    if (type == "Normalize") config.normalize = true;
  }
  if (found != "Transformer, Pooling" && found != "Transformer, Pooling, Normalize") {
    modules.refuse("the modules Transformer, Pooling and perhaps Normalize",
                   found.empty() ? "none" : found);
  }
  return config;
}

}  // namespace prenorm
