// A malformed file with a name, what opens it, and what the error must say. The tables of them are
// in *_files.cc; library_test.cc opens each through the library, program_test.cc with the program.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/base/json.h"
#include "tests/hostile/valid_files.h"

namespace prenorm::hostile {

// What a path is opened as.
enum class Opener {
  kTensors,    // read_tensors(): a file of tensors
  kIndex,      // read_sharded(): an index of such files
  kModel,      // load_pretrained(): a model folder, its end-of-text tokens and tokenizer
  kSource,     // read_model_source(): a checkpoint of nanoGPT or minGPT
  kTokenizer,  // load_tokenizer(): a folder
  kEncoder,    // SentenceEncoder: a folder
  kToml,       // load_toml()
  kState,      // read_training_state_summary(): a run folder
  kMetrics,    // read_metrics() and read_watch()
};

struct HostileFile {
  std::string name;  // what is wrong, as a sentence with underscores
  Opener opener = Opener::kTensors;
  Files files;
  std::string opened;    // the path to open, in the folder; empty for the folder itself
  std::string culprit;   // the file that the message must name
  std::string expected;  // a part of the message
  std::function<void(const std::filesystem::path&)> arrange;  // links, pipes
};

// A table in the making: names begin alike, and one kind of opener opens all unless a file says
// another.
class HostileTable {
 public:
  HostileTable(std::string prefix, Opener opener) : prefix_(std::move(prefix)), opener_(opener) {}

  // A folder with these files; `culprit` is the one that the message must name.
  HostileFile& add_folder(const std::string& name, Files files, const std::string& culprit,
                          const std::string& expected);
  // A file alone, opened by its name.
  HostileFile& add_file(const std::string& name, const std::string& file, const std::string& bytes,
                        const std::string& expected);
  std::vector<HostileFile> take() { return std::move(files_); }

 private:
  std::string prefix_;
  Opener opener_;
  std::vector<HostileFile> files_;
};

// The JSON with the value at a pointer put there, as text.
std::string json_with(Json json, const std::string& pointer, const Json& value);

// The tables, one a family of formats.
std::vector<HostileFile> safetensors_files();
std::vector<HostileFile> numpy_files();
std::vector<HostileFile> torch_files();
std::vector<HostileFile> index_files();
std::vector<HostileFile> config_files();
std::vector<HostileFile> model_files();
std::vector<HostileFile> bpe_files();
std::vector<HostileFile> wordpiece_files();
std::vector<HostileFile> encoder_files();
std::vector<HostileFile> state_files();
std::vector<HostileFile> text_files();  // TOML, metrics.jsonl

std::vector<HostileFile> all_hostile_files();

// Writes the files into an empty folder and arranges the rest.
void write_hostile(const HostileFile& file, const std::filesystem::path& folder);

// Opens the file as a user of the library would; what it holds is read too.
void open_hostile(const HostileFile& file, const std::filesystem::path& folder);

}  // namespace prenorm::hostile
