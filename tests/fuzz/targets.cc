#include "tests/fuzz/targets.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/formats/npy.h"
#include "prenorm/formats/npz.h"
#include "prenorm/formats/pickle.h"
#include "prenorm/formats/sharded.h"
#include "prenorm/formats/tensor_file.h"
#include "prenorm/formats/toml.h"
#include "prenorm/formats/torch_file.h"
#include "prenorm/model/bert_config.h"
#include "prenorm/model/config_json.h"
#include "prenorm/model/sentence_config.h"
#include "prenorm/text/bpe_files.h"
#include "prenorm/text/bpe_json.h"
#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/tokenizer_files.h"
#include "prenorm/text/wordpiece_json.h"
#include "prenorm/train/metrics.h"
#include "prenorm/train/state.h"
#include "tests/hostile/valid_files.h"
#include "tests/temporary_folder.h"

namespace prenorm::fuzz {
namespace {

using namespace prenorm::hostile;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void read_all(std::span<const Tensor> tensors) {
  double sum = 0.0;
  for (const Tensor& t : tensors) {
    if (t.bytes.size() != static_cast<std::size_t>(t.size()) * dtype_size(t.dtype)) {
      throw std::logic_error("a tensor of another size than its bytes");
    }
    for (const std::byte b : t.bytes) sum += std::to_integer<int>(b);
  }
  volatile double seen = sum;  // so that the bytes are read
  static_cast<void>(seen);
}

void use(const Tokenizer& tokenizer) {
  try {
    static_cast<void>(tokenizer.decode(tokenizer.encode("the cats\n a")));
  } catch (const DataError&) {  // a vocabulary may lack these characters
  }
  for (TokenId id = 0; id < std::min<Index>(tokenizer.vocab_size(), 300); ++id) {
    static_cast<void>(tokenizer.decode({&id, 1}));
  }
}

// A folder of this process's own whose file `name` is each input in turn.
class InFolder {
 public:
  explicit InFolder(Files files) {
    for (const auto& [name, bytes] : files) write(name, bytes);
  }
  const std::filesystem::path& path() const { return folder_.path(); }
  void write(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    // A new file: some file systems bring one that is written over to the disk at once.
    std::filesystem::remove(folder_.path() / name);
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
  }

 private:
  TemporaryFolder folder_{"fuzz"};
};

// ---- the readers --------------------------------------------------------------------------------

void read_safetensors(std::string_view b) { read_all(Safetensors(bytes_of(b), "x").tensors()); }
void read_npy(std::string_view b) { read_all(std::array{parse_npy(bytes_of(b), "x")}); }
void read_npz(std::string_view b) { read_all(Npz(bytes_of(b), "x").tensors()); }
void read_torch(std::string_view b) { read_all(TorchFile(bytes_of(b), "x").tensors()); }

void read_pickle(std::string_view b) {
  static constexpr std::array<std::string_view, 2> kNames = {"torch._utils._rebuild_tensor_v2",
                                                             "torch.FloatStorage"};
  const Pickle pickle(bytes_of(b), "x", kNames);
  if (pickle.root().items.size() > b.size()) throw std::logic_error("more values than bytes");
}

void read_index(std::string_view b) {
  static const InFolder folder(valid_index());
  folder.write("model.safetensors.index.json", b);
  read_all(read_sharded(folder.path() / "model.safetensors.index.json").tensors());
}

void read_json(std::string_view b) {
  const Json json = parse_json(b, "x");
  if (parse_json(dump_json(json), "again") != json) throw std::logic_error("another value");
}

void read_toml(std::string_view b) { static_cast<void>(parse_toml(b, "x")); }
void read_gpt_config(std::string_view b) {
  const GptConfig config = parse_config(b, "x");
  if (config_text(parse_config(config_text(config), "again")) != config_text(config)) {
    throw std::logic_error("another config");
  }
}
void read_bert_config(std::string_view b) { static_cast<void>(parse_bert_config(b, "x")); }

void read_bpe(std::string_view b) { use(BpeTokenizer(bpe_model_of(parse_json(b, "x"), "x"))); }

// vocab.json, a byte of zero, merges.txt.
void read_gpt2_tokenizer(std::string_view b) {
  const std::string_view vocab = b.substr(0, b.find('\0'));
  const std::string_view lines = b.substr(std::min(vocab.size() + 1, b.size()));
  BpeModel model;
  model.tokens = read_vocabulary(parse_json(vocab, "v"), 0, "v");
  model.merges = resolve_merges(model.tokens, parse_merges(lines, "m"), "m");
  use(BpeTokenizer(std::move(model)));
}

void read_any_tokenizer(std::string_view b) {
  static const InFolder folder({});
  folder.write("tokenizer.json", b);
  use(*load_tokenizer(folder.path()));
}

void read_wordpiece(std::string_view b) {
  use(WordPieceTokenizer(wordpiece_model_of(parse_json(b, "x"), "x")));
}

void read_vocabulary_lines(std::string_view b) {
  WordPieceModel model;
  add_wordpiece_vocabulary(b, model, "x");
  use(WordPieceTokenizer(std::move(model)));
}

void read_modules(std::string_view b) {
  static const InFolder folder(valid_encoder());
  folder.write("modules.json", b);
  const SentenceConfig config = load_sentence_config(folder.path());
  if (!config.transformer.string().starts_with(folder.path().string())) {
    throw std::logic_error("a place outside of the folder");
  }
}

void read_metrics_lines(std::string_view b) {
  static const InFolder folder({});
  folder.write("metrics.jsonl", b);
  static_cast<void>(read_metrics(folder.path() / "metrics.jsonl"));
  static_cast<void>(read_watch(folder.path() / "metrics.jsonl"));
}

void read_state(std::string_view b) {
  static const InFolder folder({});
  folder.write("training_state.json", b);
  static_cast<void>(read_training_state_summary(folder.path()));
}

// ---- the table ----------------------------------------------------------------------------------

template <void (*Read)(std::string_view)>
bool accepts(std::string_view bytes) {
  // A copy that ends where its memory ends, so that a sanitizer sees a read behind it.
  const auto copy = std::make_unique<char[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  try {
    Read({copy.get(), bytes.size()});
  } catch (const Error&) {
    return false;
  }
  return true;
}

template <std::string (*Valid)()>
std::vector<std::string> one() {
  return {Valid()};
}

using Seeds = std::vector<std::string>;

constexpr std::array kTargets = {
    Target{"safetensors", accepts<read_safetensors>, one<valid_safetensors>},
    Target{"npy", accepts<read_npy>, one<valid_npy>},
    Target{"npz", accepts<read_npz>, one<valid_npz>},
    Target{"torch", accepts<read_torch>, one<valid_torch>},
    Target{"pickle", accepts<read_pickle>, [] { return Seeds{"\x80\x02" + valid_pickle() + "."}; }},
    Target{"index", accepts<read_index>,
           [] { return Seeds{valid_index().at("model.safetensors.index.json")}; }},
    Target{"json", accepts<read_json>,
           [] {
             return Seeds{gpt_config_with("", ""), R"([1,-2.5e-3,"\u00e9\n",{"a":[]},null,true])"};
           }},
    Target{"toml", accepts<read_toml>, one<valid_toml>},
    Target{"gpt_config", accepts<read_gpt_config>, [] { return Seeds{gpt_config_with("", "")}; }},
    Target{"bert_config", accepts<read_bert_config>,
           [] { return Seeds{bert_config_with("", "")}; }},
    Target{"bpe", accepts<read_bpe>,
           [] {
             return Seeds{
                 R"({"added_tokens":[{"id":3,"content":"<s>","special":true}],"normalizer":null,)"
                 R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":)"
                 R"({"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},)"
                 R"("merges":["a b"]}})",
                 valid_bpe().at("tokenizer.json")};
           }},
    Target{"gpt2_tokenizer", accepts<read_gpt2_tokenizer>,
           [] {
             const std::string zero(1, '\0');
             const Files files = valid_gpt2_tokenizer();
             return Seeds{R"({"a":0,"b":1,"ab":2})" + zero + "#version: 0.2\na b\n",
                          files.at("vocab.json") + zero + files.at("merges.txt")};
           }},
    Target{"tokenizer", accepts<read_any_tokenizer>,
           [] {
             return Seeds{R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},)"
                          R"("decoder":{"type":"Fuse"}})",
                          valid_wordpiece().at("tokenizer.json")};
           }},
    Target{"wordpiece", accepts<read_wordpiece>,
           [] { return Seeds{valid_wordpiece().at("tokenizer.json")}; }},
    Target{"vocabulary", accepts<read_vocabulary_lines>,
           [] { return Seeds{valid_vocabulary().at("vocab.txt")}; }},
    Target{"modules", accepts<read_modules>,
           [] { return Seeds{valid_encoder().at("modules.json")}; }},
    Target{"state", accepts<read_state>, one<valid_state>},
    Target{"metrics", accepts<read_metrics_lines>, one<valid_metrics>},
};

}  // namespace

std::span<const Target> all_targets() { return kTargets; }

}  // namespace prenorm::fuzz
