// How a folder of sentence-transformers makes one vector of a text: modules.json and the files that
// it names.
#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

#include "prenorm/base/index.h"

namespace prenorm {

enum class Pooling {
  kMean,  // of all tokens' vectors, [CLS] and [SEP] among them
  kCls,   // the first token's
  kMax,   // the largest of each feature
};

// "mean", "cls", "max".
std::string_view pooling_name(Pooling pooling);
std::optional<Pooling> pooling_from_name(std::string_view name);

struct SentenceConfig {
  std::filesystem::path transformer;  // folder of the encoder and its tokenizer
  Pooling pooling = Pooling::kMean;
  bool normalize = false;    // to length 1
  Index max_seq_length = 0;  // tokens, [CLS] and [SEP] among them; 0: as many as the encoder takes
};

// A folder without modules.json is an encoder alone: mean, not normalised, as sentence-transformers
// takes it. Throws IoError; FormatError naming what is not supported: other modules, two poolings
// together, a prompt before each text.
SentenceConfig load_sentence_config(const std::filesystem::path& folder);

}  // namespace prenorm
