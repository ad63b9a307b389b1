#include "prenorm/cli/generate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/continuation.h"
#include "prenorm/cli/interrupt.h"
#include "prenorm/cli/prompt_lines.h"
#include "prenorm/generate/generator.h"
#include "prenorm/generate/scoring.h"

namespace prenorm::cli {
namespace {

// Weights in float32 are used where the file is mapped until so many tokens are there; what is
// copied from then on pays for itself in so many more.
constexpr Index kTokensFirst = 8, kTokensThatPay = 32;

class Generate : public Verb {
 public:
  void declare(OptionTable& table) override;
  int run(const OptionTable& table, const Streams& streams) override;

 private:
  void check_flags(const OptionTable& table) const;
  void pack(const Runtime& run, Gpt& model);
  void pack_next(const Runtime& run, Gpt& model);
  std::string prompt_text(const OptionTable& table, const LoadedModel& loaded) const;
  GenerateCallbacks callbacks(const LoadedModel& loaded, const Streams& streams);
  int continue_one(const Runtime& run, const LoadedModel& loaded, const std::string& prompt,
                   const Streams& streams);
  int continue_lines(const Runtime& run, const LoadedModel& loaded,
                     const std::vector<Prompt>& prompts, const Streams& streams);
  void print_json(const LoadedModel& loaded, const Generation& generation,
                  std::span<const TokenId> prompt, std::span<const float> logprobs,
                  const Streams& streams) const;

  std::string folder_, prompt_, file_, prompts_, weights_ = "auto";
  std::vector<std::string> stop_;
  GenerateOptions options_;
  std::uint64_t seed_ = 1337;
  Index samples_ = 1;
  bool slide_ = true, display_prompt_ = true, ignore_eos_ = false, prompt_logprobs_ = false;
  bool told_of_sliding_ = false;
  Index tokens_ = 0;           // generated so far
  bool more_to_pack_ = false;  // part by part, while tokens are generated
  CommonFlags common_;
};

void Generate::declare(OptionTable& table) {
  constexpr Index kMany = Index{1} << 31;
  SamplerOptions& sampler = options_.sampler;
  table.group("Input");
  table.text("model", folder_, "DIR", "model folder").short_name('m');
  table.text("prompt", prompt_, "TEXT", "text to continue")
      .short_name('p')
      .shown_default("a line end");
  table.text("file", file_, "FILE", "file with the text to continue; - is standard input")
      .short_name('f');
  table.text(
      "prompts", prompts_, "FILE",
      "prompts to continue, one {\"text\": ...} or {\"ids\": [...]} a line (with --json); - is "
      "standard input");
  table.group("Length");
  table.integer("n-predict", options_.max_new_tokens, {0, kMany}, "new tokens at most")
      .short_name('n');
  table.texts("stop", stop_, "TEXT", "end before this text");
  table.flag("ignore-eos", ignore_eos_, "go on past the end-of-text token");
  table.toggle("slide", slide_,
               "past the context, let each token see the last tokens only (slower); without it, "
               "end there");
  table.group("Sampling");
  table.real("temp", sampler.temperature, {.min = 0}, "temperature; 0 takes the likeliest token");
  table.integer("top-k", sampler.top_k, {0, kMany}, "the k likeliest tokens, and ties; 0: all");
  table.real("top-p", sampler.top_p, {.min = 0, .max = 1, .above_min = true},
             "the fewest tokens with this probability together; 1: all");
  table.real("min-p", sampler.min_p, {.min = 0, .max = 1},
             "tokens at least this times as likely as the likeliest; 0: all");
  table.real("repeat-penalty", sampler.repeat_penalty, {.min = 0, .max = 1e6, .above_min = true},
             "makes tokens of prompt and text less likely; 1: off");
  table.real("frequency-penalty", sampler.frequency_penalty, {.min = -1e6, .max = 1e6},
             "subtracted for each time a token was generated; 0: off");
  table.real("presence-penalty", sampler.presence_penalty, {.min = -1e6, .max = 1e6},
             "subtracted once for tokens that were generated; 0: off");
  table.seed("seed", seed_, "of the random numbers; the same seed gives the same text");
  table.integer("num-samples", samples_, {1, 1 << 20}, "continuations to make");
  common_.declare_machine(table);
  table.choice("weights", weights_, {"auto", "f32", "bf16"},
               "how they are kept in memory: bf16 takes half of it and of the time to read them, "
               "rounded as by convert; auto: bf16 if that is what the model holds");
  table.integer("batch-size", options_.batch, {1, 1 << 16},
                "continuations of --prompts computed together; the results do not depend on it");
  table.group("Output");
  table.toggle("display-prompt", display_prompt_, "print the prompt before the text");
  table.flag("prompt-logprobs", prompt_logprobs_,
             "with --json, also prompt_ids and prompt_logprobs: what the prompt's own tokens are "
             "worth to the model");
  common_.declare_output(
      table, "print one JSON object a continuation: ids, text, logprobs, stop (eos|length|string)");
}

void Generate::pack(const Runtime& run, Gpt& model) {
  const auto format = weights_ == "auto"  ? model.smallest_format()
                      : weights_ == "f32" ? kernels::WeightFormat::kFloat32
                                          : kernels::WeightFormat::kBfloat16;
  const bool one_by_one = prompts_.empty();
  if (format == kernels::WeightFormat::kBfloat16 || !one_by_one) return model.pack(run, format);
  more_to_pack_ = options_.max_new_tokens * samples_ >= kTokensFirst + kTokensThatPay;
}

void Generate::pack_next(const Runtime& run, Gpt& model) {
  if (more_to_pack_ && ++tokens_ > kTokensFirst) more_to_pack_ = model.pack_next(run);
}

void Generate::check_flags(const OptionTable& table) const {
  if (table.given("prompt") && table.given("file")) {
    throw ConfigError("--file: expected a prompt or a file, found both");
  }
  if (prompts_.empty()) {
    if (prompt_logprobs_ && !common_.json) {
      throw ConfigError("--prompt-logprobs: expected together with --json, found without");
    }
    return;
  }
  if (table.given("prompt") || table.given("file")) {
    throw ConfigError("--prompts: expected a prompt or a file of prompts, found both");
  }
  if (!common_.json) throw ConfigError("--prompts: expected together with --json, found without");
}

std::string Generate::prompt_text(const OptionTable& table, const LoadedModel& loaded) const {
  if (table.given("file")) return file_ == "-" ? read_file("/dev/stdin") : read_file(file_);
  if (table.given("prompt")) return prompt_;
  try {
    static_cast<void>(loaded.tokenizer->encode("\n"));
    return "\n";
  } catch (const DataError&) {
    throw ConfigError("-p: expected a text to continue, found none");
  }
}

void Generate::print_json(const LoadedModel& loaded, const Generation& generation,
                          std::span<const TokenId> prompt, std::span<const float> logprobs,
                          const Streams& streams) const {
  std::optional<ScoredPrompt> scored;
  if (prompt_logprobs_) scored = {prompt, logprobs};
  streams.out.write(continuation_json(loaded.tokenizer.get(), stop_, generation, scored));
  streams.out.flush();
}

// The notice that tokens fall out of the window, once.
GenerateCallbacks Generate::callbacks(const LoadedModel& loaded, const Streams& streams) {
  GenerateCallbacks callbacks;
  callbacks.on_slide = [this, context = loaded.model->config().block_size, &streams] {
    if (std::exchange(told_of_sliding_, true)) return;
    // Not inside the line that the text has reached, where both go to the same screen.
    if (streams.out.is_terminal() && streams.log.is_terminal()) streams.log.write("\n");
    streams.log.print(
        "notice: the text is longer than the model's context of {} tokens; each new token sees "
        "the last {}\n",
        context, context);
    streams.log.flush();
  };
  return callbacks;
}

int Generate::continue_one(const Runtime& run, const LoadedModel& loaded, const std::string& prompt,
                           const Streams& streams) {
  std::vector<TokenId> ids;
  try {
    ids = loaded.tokenizer->encode(prompt);
  } catch (const EncodeError& error) {
    throw EncodeError("prompt", error.offset, error.expected, error.found);
  }
  options_.batch = 1;  // one after the other, so that each streams
  std::vector<float> logprobs;
  if (prompt_logprobs_ && !ids.empty()) logprobs = score_tokens(run, *loaded.model, ids);

  const InterruptGuard interrupt;
  for (Index sample = 0; sample < samples_ && !interrupt.requested(); ++sample) {
    TextStream text(*loaded.tokenizer, stop_);
    const bool plain = !common_.json;
    std::string last_shown = "\n";
    const auto show = [&](const std::string& piece) {
      if (!plain || piece.empty()) return;
      streams.out.write(piece);
      streams.out.flush();
      last_shown = piece;
    };
    if (sample > 0) show("---------------\n");
    bool prompt_shown = !display_prompt_;
    const auto show_prompt = [&] {
      if (!std::exchange(prompt_shown, true)) show(to_valid_utf8(prompt));
    };
    GenerateCallbacks calls = callbacks(loaded, streams);
    calls.on_token = [&](const NewToken& token) {
      show_prompt();
      if (!token.eos) show(text.feed(token.id));
      pack_next(run, *loaded.model);
      return !text.stopped() && !interrupt.requested();
    };
    const GenerateRequest request{ids, {seed_, 0, static_cast<std::uint32_t>(sample)}};
    const auto generations = generate(run, *loaded.model, {&request, 1}, options_, calls);
    show_prompt();  // where there was no token
    show(text.finish());
    if (plain && last_shown.back() != '\n') show("\n");
    if (!plain && !interrupt.requested()) {
      print_json(loaded, generations.front(), ids, logprobs, streams);
    }
  }
  return interrupt.exit_code();
}

int Generate::continue_lines(const Runtime& run, const LoadedModel& loaded,
                             const std::vector<Prompt>& prompts, const Streams& streams) {
  // Enough to find prompts of equal length among; what is done is printed after each of them.
  const Index together = options_.batch * 16, all = static_cast<Index>(prompts.size()) * samples_;
  const InterruptGuard interrupt;
  for (Index begin = 0; begin < all && !interrupt.requested(); begin += together) {
    std::vector<GenerateRequest> requests;
    std::vector<std::optional<TextStream>> texts;
    for (Index i = begin; i < std::min(begin + together, all); ++i) {
      const Prompt& prompt = prompts[static_cast<std::size_t>(i / samples_)];
      requests.push_back({prompt.ids,
                          {seed_, static_cast<std::uint32_t>(i / samples_),
                           static_cast<std::uint32_t>(i % samples_)}});
      texts.emplace_back();
      if (!stop_.empty()) texts.back().emplace(*loaded.tokenizer, stop_);
    }
    GenerateCallbacks calls = callbacks(loaded, streams);
    calls.on_token = [&](const NewToken& token) {
      std::optional<TextStream>& text = texts[token.request];
      if (text && !token.eos) text->feed(token.id);
      return !(text && text->stopped()) && !interrupt.requested();
    };
    const auto made = generate(run, *loaded.model, requests, options_, calls);
    std::vector<float> logprobs;
    for (std::size_t i = 0; i < made.size() && !interrupt.requested(); ++i) {
      if (prompt_logprobs_ && (i == 0 || requests[i].stream.sample == 0)) {
        logprobs = score_tokens(run, *loaded.model, requests[i].prompt);
      }
      print_json(loaded, made[i], requests[i].prompt, logprobs, streams);
    }
  }
  return interrupt.exit_code();
}

int Generate::run(const OptionTable& table, const Streams& streams) {
  check_flags(table);
  const Runtime run(common_.runtime());
  const auto tokenizer = prompts_.empty() ? TokenizerUse::kRequired : TokenizerUse::kOptional;
  const auto memory = weights_ == "bf16" ? WeightMemory::kOwn : WeightMemory::kMapped;
  const LoadedModel loaded = load_model(run, folder_, tokenizer, memory);
  if (!stop_.empty() && !loaded.tokenizer) {
    throw ConfigError("--stop: expected a model with a tokenizer, found none");
  }
  options_.slide = slide_;
  options_.logprobs = common_.json;
  if (loaded.tokenizer) options_.vocab_size = loaded.tokenizer->vocab_size();
  if (!ignore_eos_) options_.eos_tokens = loaded.eos_tokens;

  if (prompts_.empty()) {
    const std::string prompt = prompt_text(table, loaded);
    pack(run, *loaded.model);
    return continue_one(run, loaded, prompt, streams);
  }
  const GptConfig& config = loaded.model->config();
  const std::vector<Prompt> prompts = read_prompts(prompts_, config, loaded.tokenizer.get());
  for (const Prompt& prompt : prompts) {
    const Index length = static_cast<Index>(prompt.ids.size());
    if (slide_ || length <= config.block_size) continue;
    throw DataError(prompt.place + ": expected at most the model's context of " +
                    std::to_string(config.block_size) + " tokens without sliding, found " +
                    std::to_string(length));
  }
  pack(run, *loaded.model);
  return continue_lines(run, loaded, prompts, streams);
}

}  // namespace

std::unique_ptr<Verb> make_generate() { return std::make_unique<Generate>(); }

}  // namespace prenorm::cli
