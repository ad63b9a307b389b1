// A continuation as text and as the JSON line that `generate` prints.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "prenorm/generate/generator.h"
#include "prenorm/generate/stop_strings.h"
#include "prenorm/text/stream_decoder.h"
#include "prenorm/text/tokenizer.h"

namespace prenorm::cli {

// The text of one continuation, as its tokens come.
class TextStream {
 public:
  // `tokenizer` must outlive it.
  TextStream(const Tokenizer& tokenizer, const std::vector<std::string>& stop)
      : tokenizer_(&tokenizer), stop_(stop) {}

  // The text that this token makes certain.
  std::string feed(TokenId id) { return stop_.feed(decoder_.feed(tokenizer_->decode(id))); }
  std::string finish() { return stop_.feed(decoder_.finish()) + stop_.finish(); }
  bool stopped() const { return stop_.found(); }

 private:
  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  StopStrings stop_;
};

// The whole text of a continuation: without the end-of-text token and the stop text.
std::string continuation_text(const Tokenizer& tokenizer, const std::vector<std::string>& stop,
                              const Generation& generation);

// What a prompt's tokens are worth to the model; log-probabilities of all but the first.
struct ScoredPrompt {
  std::span<const TokenId> ids;
  std::span<const float> logprobs;
};

// {"ids": …, "text": …, "logprobs": …, "stop": …} and a line end; `text` is null without a
// tokenizer. With a scored prompt also `prompt_ids` and `prompt_logprobs`, its first entry null.
// Numbers read back to the same floats.
std::string continuation_json(const Tokenizer* tokenizer, const std::vector<std::string>& stop,
                              const Generation& generation,
                              const std::optional<ScoredPrompt>& prompt);

}  // namespace prenorm::cli
