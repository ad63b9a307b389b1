#include "prenorm/generate/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

// Sequences of equal length that advance together.
class Batch {
 public:
  Batch(const Runtime& run, const Gpt& model, std::span<const GenerateRequest> requests,
        std::vector<std::size_t> members, const GenerateOptions& options,
        const std::function<bool(const NewToken&)>& on_token,
        const std::function<void()>& slide_once)
      : run_(run),
        model_(model),
        options_(options),
        on_token_(on_token),
        slide_once_(slide_once),
        context_(model.config().block_size),
        vocabulary_(model.config().vocab_size),
        choices_(options.vocab_size == 0 ? vocabulary_ : options.vocab_size),
        cache_(model.make_cache(static_cast<Index>(members.size()))) {
    for (std::size_t member : members) {
      const GenerateRequest& request = requests[member];
      rows_.push_back({member, request, {request.prompt.begin(), request.prompt.end()}, {}, true});
    }
    logits_.resize(rows_.size() * static_cast<std::size_t>(vocabulary_));
  }

  void run(std::vector<Generation>& results) {
    for (Index made = 0; made < options_.max_new_tokens && any_active(); ++made) {
      if (!options_.slide && length() > context_) break;
      advance(made == 0);
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        if (rows_[r].active) {
          choose(r, made);
        } else {
          rows_[r].tokens.push_back(0);  // keeps step with the others; nobody looks
        }
      }
    }
    for (Row& row : rows_) results[row.index] = std::move(row.result);
  }

 private:
  struct Row {
    std::size_t index;
    GenerateRequest request;
    std::vector<TokenId> tokens;  // prompt and continuation
    Generation result;
    bool active;
  };

  Index length() const { return static_cast<Index>(rows_.front().tokens.size()); }
  bool any_active() const {
    return std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.active; });
  }

  // Computes the logits that follow the last token of each row.
  void advance(bool first) {
    Index fresh = first ? length() : 1;
    if (length() > context_) {
      slide_once_();
      fresh = context_;
    }
    if (fresh > 1) cache_.clear();
    std::vector<TokenId> tokens;
    for (const Row& row : rows_)
      tokens.insert(tokens.end(), row.tokens.end() - fresh, row.tokens.end());
    const Index batch = static_cast<Index>(rows_.size());
    model_.decode(run_, cache_, TokenMatrix(tokens.data(), {batch, fresh}),
                  Matrix(logits_.data(), {batch, vocabulary_}));
  }

  void choose(std::size_t r, Index made) {
    Row& row = rows_[r];
    const std::span<const float> logits(logits_.data() + r * static_cast<std::size_t>(vocabulary_),
                                        static_cast<std::size_t>(vocabulary_));
    const double uniform =
        options_.sampler.temperature == 0.0 ? 0.0 : sampling_number(row.request.stream, made);
    const TokenId id =
        sample_token(logits.first(static_cast<std::size_t>(choices_)),
                     {row.request.prompt, row.result.ids}, options_.sampler, uniform);
    row.result.ids.push_back(id);
    if (options_.logprobs) {
      row.result.logprobs.push_back(static_cast<float>(token_logprob(logits, id)));
    }
    row.tokens.push_back(id);
    const bool eos = std::find(options_.eos_tokens.begin(), options_.eos_tokens.end(), id) !=
                     options_.eos_tokens.end();
    const bool go_on = !on_token_ || on_token_({row.index, made, id, eos});
    if (eos) {
      row.result.stop = StopReason::kEos;
    } else if (!go_on) {
      row.result.stop = StopReason::kCallback;
    }
    row.active = !eos && go_on;
  }

  const Runtime& run_;
  const Gpt& model_;
  const GenerateOptions& options_;
  const std::function<bool(const NewToken&)>& on_token_;
  const std::function<void()>& slide_once_;
  Index context_, vocabulary_, choices_;
  Gpt::Cache cache_;
  std::vector<Row> rows_;
  std::vector<float> logits_;  // [B, V]
};

void check(const GptConfig& config, const GenerateRequest& request,
           const GenerateOptions& options) {
  const Index length = static_cast<Index>(request.prompt.size());
  if (length == 0) throw DataError("prompt: expected at least one token, found none");
  if (!options.slide && length > config.block_size) {
    throw DataError(fmt::format(
        "prompt: expected at most the model's context of {} tokens without sliding, found {}",
        config.block_size, length));
  }
  for (TokenId id : request.prompt) {
    if (id < 0 || id >= config.vocab_size) {
      throw ShapeError(
          fmt::format("prompt: expected tokens below {}, found {}", config.vocab_size, id));
    }
  }
}

}  // namespace

void GenerateOptions::validate() const {
  sampler.validate();
  if (max_new_tokens < 0) {
    throw ConfigError(fmt::format("max_new_tokens: expected at least 0, found {}", max_new_tokens));
  }
  if (vocab_size < 0) {
    throw ConfigError(fmt::format("vocab_size: expected at least 0, found {}", vocab_size));
  }
  if (batch < 1) throw ConfigError(fmt::format("batch: expected at least 1, found {}", batch));
}

std::vector<Generation> generate(const Runtime& run, const Gpt& model,
                                 std::span<const GenerateRequest> requests,
                                 const GenerateOptions& options,
                                 const GenerateCallbacks& callbacks) {
  options.validate();
  if (options.vocab_size > model.config().vocab_size) {
    throw ConfigError(fmt::format("vocab_size: expected at most the model's {}, found {}",
                                  model.config().vocab_size, options.vocab_size));
  }
  std::map<std::size_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    check(model.config(), requests[i], options);
    by_length[requests[i].prompt.size()].push_back(i);
  }
  bool slid = false;
  const std::function<void()> slide_once = [&] {
    if (!slid && callbacks.on_slide) callbacks.on_slide();
    slid = true;
  };
  std::vector<Generation> results(requests.size());
  const std::size_t limit = static_cast<std::size_t>(options.batch);
  for (const auto& [length, members] : by_length) {
    for (std::size_t begin = 0; begin < members.size(); begin += limit) {
      const std::size_t end = std::min(begin + limit, members.size());
      Batch batch(run, model, requests,
                  {members.begin() + static_cast<std::ptrdiff_t>(begin),
                   members.begin() + static_cast<std::ptrdiff_t>(end)},
                  options, callbacks.on_token, slide_once);
      batch.run(results);
    }
  }
  return results;
}

}  // namespace prenorm
