#include "prenorm/cli/generate.h"

#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/interrupt.h"
#include "prenorm/generate/generator.h"
#include "prenorm/generate/stop_strings.h"
#include "prenorm/text/stream_decoder.h"

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

// The text of one continuation, as its tokens come.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, const std::vector<std::string>& stop)
      : tokenizer_(tokenizer), stop_(stop) {}

  // The text that this token makes certain.
  std::string feed(TokenId id) { return stop_.feed(decoder_.feed(tokenizer_.decode(id))); }
  std::string finish() { return stop_.feed(decoder_.finish()) + stop_.finish(); }
  bool stopped() const { return stop_.found(); }

 private:
  const Tokenizer& tokenizer_;
  StreamDecoder decoder_;
  StopStrings stop_;
};

class Generate : public Verb {
 public:
  void declare(OptionTable& table) override;
  int run(const OptionTable& table, const Streams& streams) override;

 private:
  std::string prompt_text(const OptionTable& table, const LoadedModel& loaded) const;
  void print_json(const LoadedModel& loaded, const Generation& generation,
                  const Streams& streams) const;

  std::string folder_, prompt_, file_;
  std::vector<std::string> stop_;
  GenerateOptions options_;
  std::uint64_t seed_ = 1337;
  Index samples_ = 1;
  bool slide_ = true, display_prompt_ = true, ignore_eos_ = false;
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
  table.group("Output");
  table.toggle("display-prompt", display_prompt_, "print the prompt before the text");
  common_.declare_output(
      table, "print one JSON object a continuation: ids, text, logprobs, stop (eos|length|string)");
}

std::string Generate::prompt_text(const OptionTable& table, const LoadedModel& loaded) const {
  if (table.given("prompt") && table.given("file")) {
    throw ConfigError("--file: expected a prompt or a file, found both");
  }
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
                          const Streams& streams) const {
  TextStream text(*loaded.tokenizer, stop_);
  std::string shown;
  for (TokenId id : generation.ids) {
    const bool last = &id == &generation.ids.back();
    if (last && generation.stop == StopReason::kEos) break;
    shown += text.feed(id);
  }
  shown += text.finish();
  Json line = {{"ids", generation.ids},
               {"text", shown},
               {"logprobs", generation.logprobs},
               {"stop", stop_name(generation.stop)}};
  streams.out.write(dump_json_compact(line) + "\n");
  streams.out.flush();
}

int Generate::run(const OptionTable& table, const Streams& streams) {
  const LoadedModel loaded = load_model(folder_);
  const Runtime run(common_.runtime());
  const std::string prompt = prompt_text(table, loaded);
  std::vector<TokenId> ids;
  try {
    ids = loaded.tokenizer->encode(prompt);
  } catch (const EncodeError& error) {
    throw EncodeError("prompt", error.offset, error.expected, error.found);
  }
  loaded.model->pack(run);
  options_.slide = slide_;
  options_.logprobs = common_.json;
  options_.batch = 1;  // one after the other, so that each streams
  options_.vocab_size = loaded.tokenizer->vocab_size();
  if (!ignore_eos_) options_.eos_tokens = loaded.eos_tokens;

  const InterruptGuard interrupt;
  bool told_of_sliding = false;
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
    GenerateCallbacks callbacks;
    callbacks.on_token = [&](const NewToken& token) {
      show_prompt();
      if (!token.eos) show(text.feed(token.id));
      return !text.stopped() && !interrupt.requested();
    };
    callbacks.on_slide = [&] {
      if (std::exchange(told_of_sliding, true)) return;
      // Not inside the line that the text has reached, where both go to the same screen.
      if (streams.out.is_terminal() && streams.log.is_terminal()) streams.log.write("\n");
      streams.log.print(
          "notice: the text is longer than the model's context of {} tokens; each new token sees "
          "the last {}\n",
          loaded.model->config().block_size, loaded.model->config().block_size);
      streams.log.flush();
    };
    const GenerateRequest request{ids, {seed_, 0, static_cast<std::uint32_t>(sample)}};
    const auto generations = generate(run, *loaded.model, {&request, 1}, options_, callbacks);
    show_prompt();  // where there was no token
    show(text.finish());
    if (plain && last_shown.back() != '\n') show("\n");
    if (!plain && !interrupt.requested()) print_json(loaded, generations.front(), streams);
  }
  return interrupt.exit_code();
}

}  // namespace

std::unique_ptr<Verb> make_generate() { return std::make_unique<Generate>(); }

}  // namespace prenorm::cli
