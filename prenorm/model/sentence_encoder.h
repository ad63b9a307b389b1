// Texts to vectors: tokenizer, BERT, pooling over the tokens, normalisation; what
// sentence-transformers' encode() gives, within the rounding of floats.
//
//   SentenceEncoder encoder("all-MiniLM-L6-v2");
//   encoder.pack(run);
//   std::vector<float> vectors = encoder.encode(run, {"One text.", "Another."});  // [2, C]
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "prenorm/model/bert.h"
#include "prenorm/model/sentence_config.h"
#include "prenorm/text/wordpiece_tokenizer.h"

namespace prenorm {

class SentenceEncoder {
 public:
  // Reads a folder of sentence-transformers, or one with a BERT and its tokenizer alone. Throws
  // IoError, FormatError.
  explicit SentenceEncoder(const std::filesystem::path& folder);

  SentenceConfig& config() { return config_; }  // may be changed before encode()
  const SentenceConfig& config() const { return config_; }
  const Bert& model() const { return *model_; }
  const WordPieceTokenizer& tokenizer() const { return *tokenizer_; }
  Index width() const { return model_->config().hidden_size; }

  // [CLS], the text's tokens, [SEP], cut to max_seq_length. Special tokens in the text are taken as
  // what they stand for, as sentence-transformers does.
  std::vector<TokenId> tokens(const std::string& text) const;

  // The vectors [N, C] of N texts, in their order. `batch` texts are computed together; a vector's
  // bits do not depend on the others, nor on `batch`.
  std::vector<float> encode(const Runtime& run, std::span<const std::string> texts,
                            Index batch = 32) const;

  void pack(const Runtime& run) { model_->pack(run); }

 private:
  SentenceConfig config_;
  std::unique_ptr<WordPieceTokenizer> tokenizer_;
  std::unique_ptr<Bert> model_;
};

// One vector [C] of a sequence's hidden states [T, C], T >= 1. Sums are in double, in ascending
// order of the tokens.
void pool_tokens(Pooling pooling, ConstMatrix hidden, std::span<float> out);

// x / max(‖x‖, 1e-12), as torch.nn.functional.normalize.
void normalize_vector(std::span<float> x);

}  // namespace prenorm
