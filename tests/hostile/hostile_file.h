// A malformed file with a name, what opens it, and what the error must say. The tables of them are
// in *_files.cc; library_test.cc opens each through the library, program_test.cc with the program.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

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
