#include "prenorm/generate/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

Index longest(std::span<const GenerateRequest> requests, const std::vector<std::size_t>& members) {
  std::size_t most = 0;
  for (const std::size_t member : members) most = std::max(most, requests[member].prompt.size());
  return static_cast<Index>(most);
}

// Sequences that advance together, a position at a time: where a prompt is longer than the shortest
// of them, its next token is fed in place of a chosen one. So all share the length of the cache.
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
        cache_(model.make_cache(static_cast<Index>(members.size()),
                                longest(requests, members) + options.max_new_tokens)) {
    for (std::size_t member : members) {
      const GenerateRequest& request = requests[member];
      rows_.push_back({member, request, {request.prompt.begin(), request.prompt.end()}, {}, true});
      rows_.back().active = options_.max_new_tokens > 0;
    }
    length_ = static_cast<Index>(rows_.front().request.prompt.size());
    for (const Row& row : rows_) {
      length_ = std::min(length_, static_cast<Index>(row.request.prompt.size()));
    }
    logits_.resize(rows_.size() * static_cast<std::size_t>(vocabulary_));
  }

  void run(std::vector<Generation>& results) {
    for (bool first = true; any_active(); first = false, ++length_) {
      if (!options_.slide && length_ > context_) break;
      advance(first);
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        Row& row = rows_[r];
        if (static_cast<Index>(row.tokens.size()) > length_) continue;  // still in its prompt
        if (row.active) {
          choose(r, static_cast<Index>(row.result.ids.size()));
        } else {
          row.tokens.push_back(0);  // keeps step with the others; nobody looks
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

  bool any_active() const {
    return std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.active; });
  }

  // Computes the logits that follow the first length_ tokens of each row.
  void advance(bool first) {
    Index fresh = first ? length_ : 1;
    if (length_ > context_) {
      slide_once_();
      fresh = context_;
    }
    if (fresh > 1) cache_.clear();
    std::vector<TokenId> tokens;
    for (const Row& row : rows_) {
      const auto end = row.tokens.begin() + length_;
      tokens.insert(tokens.end(), end - fresh, end);
    }
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
    row.active = !eos && go_on && made + 1 < options_.max_new_tokens;
  }

  const Runtime& run_;
  const Gpt& model_;
  const GenerateOptions& options_;
  const std::function<bool(const NewToken&)>& on_token_;
  const std::function<void()>& slide_once_;
  Index context_, vocabulary_, choices_;
  Index length_ = 0;  // tokens of each row that are part of its text by now
  Gpt::Cache cache_;
  std::vector<Row> rows_;
  std::vector<float> logits_;  // [B, V]
};

// Requests of like length, which gain by being computed together: what a longer prompt costs
// when it is fed token by token is less than half of what its new tokens cost alone. One that is
// longer than the context goes only with its equals.
std::vector<std::vector<std::size_t>> batches(std::span<const GenerateRequest> requests,
                                              const GenerateOptions& options, Index context) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return static_cast<Index>(requests[i].prompt.size()); };
  std::ranges::stable_sort(order, {}, length);
  std::vector<std::vector<std::size_t>> out;
  for (const std::size_t i : order) {
    const bool fits = !out.empty() && static_cast<Index>(out.back().size()) < options.batch &&
                      (length(i) == length(out.back().front()) ||
                       (length(i) <= context &&
                        length(i) - length(out.back().front()) <= options.max_new_tokens / 2));
    if (!fits) out.emplace_back();
    out.back().push_back(i);
  }
  return out;
}

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
  for (const GenerateRequest& request : requests) check(model.config(), request, options);
  bool slid = false;
  const std::function<void()> slide_once = [&] {
    if (!slid && callbacks.on_slide) callbacks.on_slide();
    slid = true;
  };
  std::vector<Generation> results(requests.size());
  for (std::vector<std::size_t>& members : batches(requests, options, model.config().block_size)) {
    Batch batch(run, model, requests, std::move(members), options, callbacks.on_token, slide_once);
    batch.run(results);
  }
  return results;
}

}  // namespace prenorm
