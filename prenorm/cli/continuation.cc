#include "prenorm/cli/continuation.h"

#include "prenorm/base/json.h"

namespace prenorm::cli {
namespace {

const char* stop_name(StopReason reason) {
  switch (reason) {
    case StopReason::kEos:
      return "eos";
    case StopReason::kCallback:
      return "string";
    case StopReason::kLength:
      break;
  }
  return "length";
}

}  // namespace

std::string continuation_text(const Tokenizer& tokenizer, const std::vector<std::string>& stop,
                              const Generation& generation) {
  TextStream text(tokenizer, stop);
  std::span<const TokenId> ids = generation.ids;
  if (generation.stop == StopReason::kEos) ids = ids.first(ids.size() - 1);
  std::string shown;
  for (const TokenId id : ids) shown += text.feed(id);
  return shown + text.finish();
}

std::string continuation_json(const Tokenizer* tokenizer, const std::vector<std::string>& stop,
                              const Generation& generation,
                              const std::optional<ScoredPrompt>& prompt) {
  Json line = {{"ids", generation.ids},
               {"text", tokenizer ? Json(continuation_text(*tokenizer, stop, generation)) : Json()},
               {"logprobs", generation.logprobs},
               {"stop", stop_name(generation.stop)}};
  if (prompt) {
    Json logprobs = Json::array({nullptr});
    for (const float logprob : prompt->logprobs) logprobs.push_back(logprob);
    line["prompt_ids"] = std::vector<TokenId>(prompt->ids.begin(), prompt->ids.end());
    line["prompt_logprobs"] = std::move(logprobs);
  }
  return dump_json_compact(line) + "\n";
}

}  // namespace prenorm::cli
