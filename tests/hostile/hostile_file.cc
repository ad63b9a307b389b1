#include "tests/hostile/hostile_file.h"

#include <fstream>
#include <iterator>
#include <span>

#include "prenorm/formats/sharded.h"
#include "prenorm/formats/tensor_file.h"
#include "prenorm/formats/toml.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/config_json.h"
#include "prenorm/model/model_source.h"
#include "prenorm/model/sentence_encoder.h"
#include "prenorm/text/tokenizer.h"
#include "prenorm/train/metrics.h"
#include "prenorm/train/state.h"

namespace prenorm::hostile {
namespace {

namespace fs = std::filesystem;

void read_all(const TensorFile& file) {
  for (const Tensor& t : file.tensors()) {
    if (dtype_is_floating_point(t.dtype)) static_cast<void>(file.doubles(t));
    if (dtype_is_integer(t.dtype)) static_cast<void>(file.integers(t));
  }
}

void use(const Tokenizer& tokenizer) {
  static_cast<void>(tokenizer.decode(tokenizer.encode("the cat's 3 hats\n")));
}

void open_model(const fs::path& folder) {
  static_cast<void>(load_pretrained(folder, Gpt::Mode::kInference));
  static_cast<void>(load_eos_token_ids(folder));
  use(*load_tokenizer(folder));
}

void open_source(const fs::path& file) {
  const ModelSource source = read_model_source(file, {.n_head = 1, .activation = {}});
  static_cast<void>(model_from_weights(source.config, source.weights, Gpt::Mode::kInference));
}

}  // namespace

std::vector<HostileFile> all_hostile_files() {
  std::vector<HostileFile> all;
  for (const auto table :
       {safetensors_files, numpy_files, torch_files, index_files, config_files, model_files,
        bpe_files, wordpiece_files, encoder_files, state_files, text_files}) {
    std::vector<HostileFile> more = table();
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

HostileFile& HostileTable::add_folder(const std::string& name, Files files,
                                      const std::string& culprit, const std::string& expected) {
  files_.push_back({.name = prefix_ + name,
                    .opener = opener_,
                    .files = std::move(files),
                    .opened = "",
                    .culprit = culprit,
                    .expected = expected,
                    .arrange = {}});
  return files_.back();
}

HostileFile& HostileTable::add_file(const std::string& name, const std::string& file,
                                    const std::string& bytes, const std::string& expected) {
  HostileFile& added = add_folder(name, {{file, bytes}}, file, expected);
  added.opened = file;
  return added;
}

std::string json_with(Json json, const std::string& pointer, const Json& value) {
  json[Json::json_pointer(pointer)] = value;
  return dump_json_compact(json);
}

void write_hostile(const HostileFile& file, const fs::path& folder) {
  for (const auto& [name, bytes] : file.files) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  if (file.arrange) file.arrange(folder);
}

void open_hostile(const HostileFile& file, const fs::path& folder) {
  const fs::path path = file.opened.empty() ? folder : folder / file.opened;
  switch (file.opener) {
    case Opener::kTensors:
      return read_all(read_tensors(path));
    case Opener::kIndex:
      return read_all(read_sharded(path));
    case Opener::kModel:
      return open_model(path);
    case Opener::kSource:
      return open_source(path);
    case Opener::kTokenizer:
      return use(*load_tokenizer(path));
    case Opener::kEncoder:
      static_cast<void>(SentenceEncoder(path));
      return;
    case Opener::kToml:
      static_cast<void>(load_toml(path));
      return;
    case Opener::kState:
      static_cast<void>(read_training_state_summary(path));
      return;
    case Opener::kMetrics:
      static_cast<void>(read_metrics(path));
      static_cast<void>(read_watch(path));
      return;
  }
}

}  // namespace prenorm::hostile
