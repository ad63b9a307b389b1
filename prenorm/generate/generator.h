// Continues token sequences with a model, one token at a time, with a key/value cache.
//
//   Generation text = generate(run, model, {.prompt = ids, .stream = {.seed = 1}}, options,
//                              [&](const NewToken& token) { print(token.id); return true; });
//
// Past the model's context the window slides: each new token sees the last block_size tokens, which
// are computed anew; a longer prompt is cropped the same way. Tokens and log-probabilities are the
// same bits whether a sequence is continued alone or among others.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "prenorm/generate/sampler.h"
#include "prenorm/model/gpt.h"

namespace prenorm {

struct GenerateOptions {
  SamplerOptions sampler;
  Index max_new_tokens = 256;
  bool slide = true;                // false: stop where the context is full
  std::vector<TokenId> eos_tokens;  // any of them ends a sequence
  // Ids from here on are never chosen: the tokenizer's size, where the model's vocabulary is padded
  // beyond it. 0: all may be.
  Index vocab_size = 0;
  bool logprobs = false;  // fill Generation::logprobs
  Index batch = 16;       // sequences computed together, at most

  void validate() const;  // throws ConfigError
};

// A sequence to continue; the prompt must outlive the call.
struct GenerateRequest {
  std::span<const TokenId> prompt;
  SamplingStream stream;
};

enum class StopReason { kLength, kEos, kCallback };

struct Generation {
  std::vector<TokenId> ids;     // the new tokens, with the end-of-text token that stopped it
  std::vector<float> logprobs;  // the model's own, of each new token, if asked for
  StopReason stop = StopReason::kLength;
};

struct NewToken {
  std::size_t request = 0;  // index of the request it continues
  Index position = 0;       // 0 is the first after the prompt
  TokenId id = 0;
  bool eos = false;
};

struct GenerateCallbacks {
  // Each token as it comes. False ends that sequence after this token.
  std::function<bool(const NewToken&)> on_token;
  // Once, the first time that tokens fall out of the window.
  std::function<void()> on_slide;
};

// Continues every request; requests of like length are computed together. Results are in the order
// of the requests. Throws ConfigError, DataError (an empty prompt; without sliding, one that is
// longer than the context), ShapeError (a token outside the vocabulary), NumericalError.
std::vector<Generation> generate(const Runtime& run, const Gpt& model,
                                 std::span<const GenerateRequest> requests,
                                 const GenerateOptions& options,
                                 const GenerateCallbacks& callbacks = {});

}  // namespace prenorm
