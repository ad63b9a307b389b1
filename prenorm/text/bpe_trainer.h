// Learns a byte-level BPE from a text: the most frequent pair of neighbouring tokens becomes a
// token, over and over (Sennrich et al. 2016), within the pieces of gpt2_pattern.h.
//
//   BpeTrainer trainer({.vocab_size = 8000});
//   trainer.add(text);                          // any number of times
//   const BpeTokenizer tokenizer(trainer.train().model);
//
// The result is a function of the text alone and that of Hugging Face's BpeTrainer with
// special_tokens=["<|endoftext|>"] and ByteLevel's alphabet, ids and merges included: the special
// token is 0, the 256 bytes follow in the order of their symbols. Of equally frequent pairs the one
// of the lower ids comes first.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "prenorm/text/bpe_model.h"

namespace prenorm {

struct BpeTrainerOptions {
  Index vocab_size = 50257;  // tokens at most; 257 is the special token and the bytes
  Index min_frequency = 1;   // pairs that are rarer than this are not merged

  void validate() const;  // throws ConfigError
};

struct BpeTraining {
  BpeModel model;
  std::uint64_t pieces = 0;     // pieces in the text
  std::uint64_t different = 0;  // different ones among them
  bool interrupted = false;     // should_stop() said so: the model is not finished
};

class BpeTrainer {
 public:
  // Throws ConfigError.
  explicit BpeTrainer(const BpeTrainerOptions& options);

  // Counts the pieces of a text; texts are apart from each other. Throws DataError for a piece of
  // 4 GiB.
  void add(std::string_view text);

  // `progress`, if given, sees the number of tokens after each new one; false ends the training.
  BpeTraining train(const std::function<bool(Index)>& progress = {}) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  BpeTrainerOptions options_;
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> counts_;  // of pieces
  std::uint64_t pieces_ = 0;
};

}  // namespace prenorm
