#include "prenorm/cli/growth.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/stopwatch.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/format.h"
#include "prenorm/cli/interrupt.h"
#include "prenorm/cli/numbers.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/report/growth_report.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/text/corpus.h"

namespace prenorm::cli {
namespace {

constexpr Index kMostLayers = 1000, kMostWidth = 16384, kMostContext = 4096;
constexpr Index kOwnVocabulary = 64;  // of the text for those who have none
constexpr Index kOwnTokens = 100'000;

// A text as tokens.
struct Tokens {
  std::vector<TokenId> ids;
  Index vocab_size = 0;
  std::string name;
};

class Growth : public Verb {
 public:
  Growth();
  void declare(OptionTable& table) override;
  int run(const OptionTable& table, const Streams& streams) override;

 private:
  Tokens own_tokens(const Streams& streams) const;
  Tokens tokens_of(const Tokenizer& tokenizer, const Streams& streams) const;
  ModelGrowth measured(const Runtime& run, Gpt& model, const Tokens& tokens,
                       std::string name) const;
  void measure_initial(const Runtime& run, const Tokens& tokens, GrowthReport& report) const;
  void measure_checkpoint(const Runtime& run, const Streams& streams, GrowthReport& report) const;
  void train(const Runtime& run, const Tokens& tokens, const InterruptGuard& interrupt,
             const Streams& streams, GrowthReport& report) const;
  std::vector<Index> depths() const;
  Json to_json(const GrowthReport& report) const;

  StackOptions stack_;
  GptConfig model_;
  TrainOptions recipe_;
  Index sequences_ = 4;
  std::string folder_, html_;
  std::vector<std::string> files_, depths_ = {"12", "24"};
  bool train_ = false, scale_residuals_ = false;
  CommonFlags common_;
};

Growth::Growth() {
  model_.n_layer = 12;
  model_.n_head = 4;
  model_.n_embd = 64;
  model_.block_size = 64;
  model_.bias = false;
  recipe_.batch_size = 8;
  recipe_.learning_rate = 3e-3;
  recipe_.lr_schedule = LrSchedule::kConstant;
  recipe_.warmup_iters = 0;
  recipe_.max_iters = 200;
  recipe_.seed = 1;
}

void Growth::declare(OptionTable& table) {
  table.group("Model");
  table.integer("n-layer", model_.n_layer, {1, kMostLayers}, "layers of the stacks and models");
  table.integer("n-embd", model_.n_embd, {1, kMostWidth}, "width");
  table.integer("n-head", model_.n_head, {1, kMostWidth}, "attention heads; divides n-embd");
  table.integer("block-size", model_.block_size, {1, kMostContext}, "tokens of a sequence");
  table
      .real("initializer-range", model_.initializer_range,
            {.min = 0, .max = 1e3, .above_min = true},
            "standard deviation of the models' first weights")
      .shown_default("1/√n-embd: gain 1");
  table.real("gain", stack_.gain, {.min = 0, .max = 1e6, .above_min = true},
             "how many times larger a layer without residual connection makes its input");
  table.seed("seed", recipe_.seed, "of all random numbers");
  table.group("Real text");
  table.text("model", folder_, "DIR", "a model to measure on the text of --data").short_name('m');
  table.texts("data", files_, "FILE", "text; - is standard input").from_positionals();
  table.group("Training");
  table.flag("train", train_, "train pre-norm and post-norm models side by side");
  table.texts("train-layers", depths_, "N", "their depths").shown_default("12 24");
  table.integer("max-iters", recipe_.max_iters, {1, 1'000'000}, "steps");
  table.integer("batch-size", recipe_.batch_size, {1, 4096}, "sequences of a step");
  table.real("learning-rate", recipe_.learning_rate, {.min = 0, .max = 1e6},
             "constant, after the warm-up");
  table.integer("warmup-iters", *recipe_.warmup_iters, {0, 1'000'000}, "steps of the warm-up");
  table.flag("scale-residuals", scale_residuals_,
             "residual projections begin 1/√(2 layers) as large, as GPT-2's");
  table.real("grad-clip", recipe_.grad_clip, {.min = 0, .max = 1e6},
             "largest gradient norm; 0: no clipping");
  common_.declare_machine(table);
  table.group("Output");
  table.text("html", html_, "FILE", "write a page with the pictures");
  common_.declare_output(table, "print one JSON object with all curves");
}

int Growth::run(const OptionTable& table, const Streams& streams) {
  if (!folder_.empty() && files_.empty()) {
    throw ConfigError("--data: expected a text for the model to read, found none");
  }
  if (!folder_.empty() && train_ && std::ranges::count(files_, "-") > 0) {
    throw ConfigError("--data: expected files where -m and --train both read them, found '-'");
  }
  depths();  // throws for what is no number
  if (!train_ && table.given("train-layers")) {
    throw ConfigError("--train-layers: expected --train with it, found none");
  }
  if (!table.given("initializer-range")) {
    model_.initializer_range = 1.0 / std::sqrt(static_cast<double>(model_.n_embd));
  }
  model_.validate();
  stack_.layers = model_.n_layer;
  stack_.width = model_.n_embd;
  stack_.seed = recipe_.seed;
  const Runtime run(common_.runtime());
  const InterruptGuard interrupt;
  GrowthReport report;
  report.stack = stack_;
  report.stacks = stack_growth(stack_);
  const Tokens tokens = folder_.empty() || train_ ? own_tokens(streams) : Tokens();
  if (folder_.empty()) {
    measure_initial(run, tokens, report);
  } else {
    measure_checkpoint(run, streams, report);
  }
  // Before the training too: a page that cannot be written is found out now.
  if (!html_.empty()) write_file_durably(html_, growth_html(report));
  if (train_) {
    train(run, tokens, interrupt, streams, report);
    if (!html_.empty()) write_file_durably(html_, growth_html(report));
  }
  streams.out.write(common_.json ? dump_json(to_json(report)) : growth_text(report));
  streams.out.flush();
  return interrupt.requested() ? interrupt.exit_code() : kDone;
}

std::vector<Index> Growth::depths() const {
  std::vector<Index> out;
  for (const std::string& text : depths_) {
    const auto parsed = parse_integer(text);
    if (!parsed || *parsed < 1 || *parsed > kMostLayers) {
      throw ConfigError(fmt::format("--train-layers: expected whole numbers of 1 to {}, found '{}'",
                                    kMostLayers, printable(text)));
    }
    out.push_back(*parsed);
  }
  return out;
}

// The bytes of the files, or a text of our own.
Tokens Growth::own_tokens(const Streams& streams) const {
  if (!files_.empty()) return tokens_of(ByteTokenizer(), streams);
  return {four_followers_text(kOwnTokens, kOwnVocabulary, recipe_.seed), kOwnVocabulary,
          fmt::format("a random text of {} tokens in which four may follow each", kOwnVocabulary)};
}

Tokens Growth::tokens_of(const Tokenizer& tokenizer, const Streams& streams) const {
  const Text text =
      read_text(files_, tokenizer.needs_utf8() ? TextEncoding::kUtf8 : TextEncoding::kBytes);
  for (const std::string& notice : text.notices) streams.log.print("notice: {}\n", notice);
  Tokens tokens{encode_text(text, tokenizer), tokenizer.vocab_size(), printable(files_.front())};
  if (files_.size() > 1) tokens.name += fmt::format(" and {} more", files_.size() - 1);
  if (tokens.ids.size() < 2) {
    throw DataError(
        fmt::format("{}: expected at least 2 tokens, found {}", tokens.name, tokens.ids.size()));
  }
  return tokens;
}

// On the text's first sequences.
ModelGrowth Growth::measured(const Runtime& run, Gpt& model, const Tokens& tokens,
                             std::string name) const {
  const auto count = static_cast<Index>(tokens.ids.size()) - 1;
  const Index time = std::min({model.config().block_size, model_.block_size, count});
  const Index batch = std::min(sequences_, count / time);
  const TokenBatch all{{tokens.ids.data(), {batch, time}}, {tokens.ids.data() + 1, {batch, time}}};
  ModelGrowth found{model_growth(run, model, all), std::move(name)};
  for (const double size : found.curve.forward) {
    if (!std::isfinite(size)) {
      throw NumericalError(found.name + ": expected activations of finite size, found " +
                           number_text(size));
    }
  }
  return found;
}

// Pre- and post-norm, and pre-norm as GPT-2 begins.
void Growth::measure_initial(const Runtime& run, const Tokens& tokens, GrowthReport& report) const {
  struct Kind {
    const char* name;
    NormPlacement norm;
    bool scaled;
  };
  for (const Kind& kind : {Kind{"pre-norm", NormPlacement::kPre, false},
                           Kind{"post-norm", NormPlacement::kPost, false},
                           Kind{"pre-norm as in GPT-2", NormPlacement::kPre, true}}) {
    GptConfig config = model_;
    config.norm = kind.norm;
    config.vocab_size = tokens.vocab_size;
    Gpt model(config, Gpt::Mode::kTraining);
    model.initialize(recipe_.seed);
    if (!kind.scaled) unscale_residual_projections(model.parameters(), config);
    report.initial.push_back(measured(run, model, tokens, kind.name));
    if (kind.scaled) {
      report.initial.back().curve.meaning =
          "The residual projections begin 1/√(2 layers) as large, so that all blocks together add "
          "about as much as one. Depth then hardly shows in the stream.";
    }
  }
  report.tokens = tokens.name;
}

void Growth::measure_checkpoint(const Runtime& run, const Streams& streams,
                                GrowthReport& report) const {
  const LoadedModel loaded = load_model(run, folder_);
  const Tokens tokens = tokens_of(*loaded.tokenizer, streams);
  GptConfig config = loaded.model->config();
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.0;
  Gpt model(config, Gpt::Mode::kTraining);
  std::ranges::copy(loaded.model->parameters().values(), model.parameters().values().begin());
  report.checkpoint = measured(run, model, tokens, printable(folder_));
  report.tokens = tokens.name;
}

void Growth::train(const Runtime& run, const Tokens& tokens, const InterruptGuard& interrupt,
                   const Streams& streams, GrowthReport& report) const {
  StabilityOptions options{model_, recipe_, depths(), scale_residuals_};
  options.model.vocab_size = tokens.vocab_size;
  double all_layers = 0.0, layers_before = 0.0;
  for (const Index layers : options.depths) all_layers += 2.0 * static_cast<double>(layers);
  StatusLine status(streams.log);
  const Clock::time_point start = Clock::now();
  Index current = 0;
  const auto layers_of = [&](Index index) {
    return static_cast<double>(options.depths[static_cast<std::size_t>(index / 2)]);
  };
  const auto on_step = [&](const StabilityProgress& p) {
    for (; current < p.run; ++current) layers_before += layers_of(current);
    status.show_after(std::chrono::seconds(streams.log.is_terminal() ? 1 : 5), [&] {
      const double share = static_cast<double>(p.step) / static_cast<double>(p.steps);
      const double done = layers_before + layers_of(p.run) * share;
      const double left = seconds_since(start) * (all_layers - done) / done;
      return fmt::format("train {}/{}: {} layers, {}-norm  step {}/{}  loss {:.3f}  ETA {}",
                         p.run + 1, p.runs, layers_of(p.run), p.run % 2 == 0 ? "pre" : "post",
                         p.step, p.steps, p.loss, duration_text(left));
    });
    return !interrupt.requested();
  };
  StabilityReport training;
  training.runs = train_side_by_side(run, options, tokens.ids, on_step);
  training.recipe = recipe_;
  training.unigram_entropy = unigram_entropy(tokens.ids, tokens.vocab_size);
  training.text = tokens.name;
  training.interrupted = interrupt.requested();
  report.training = std::move(training);
}

Json numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double v : values) out.push_back(std::isfinite(v) ? Json(v) : Json());
  return out;
}

Json curve_json(const GrowthCurve& curve, const std::string& name) {
  Json out = {{"name", to_valid_utf8(name)},     {"formula", curve.formula},
              {"meaning", curve.meaning},        {"forward", numbers(curve.forward)},
              {"branch", numbers(curve.branch)}, {"backward", numbers(curve.backward)}};
  if (!curve.parameters.empty()) out["parameters"] = numbers(curve.parameters);
  return out;
}

Json Growth::to_json(const GrowthReport& report) const {
  Json stacks = Json::array(), initial = Json::array();
  for (const GrowthCurve& c : report.stacks) stacks.push_back(curve_json(c, c.name));
  for (const ModelGrowth& m : report.initial) initial.push_back(curve_json(m.curve, m.name));
  Json out = {
      {"stacks", std::move(stacks)},
      {"initialisation", std::move(initial)},
      {"tokens", to_valid_utf8(report.tokens)},
      {"checkpoint",
       report.checkpoint ? curve_json(report.checkpoint->curve, report.checkpoint->name) : Json()}};
  if (!report.training) return out;
  Json runs = Json::array();
  for (const StabilityRun& r : report.training->runs) {
    runs.push_back({{"norm", norm_placement_name(r.norm)},
                    {"layers", r.layers},
                    {"verdict", stability_verdict(r, report.training->unigram_entropy)},
                    {"final_loss", numbers({r.final_loss()}).front()},
                    {"skipped_steps", r.skipped_steps},
                    {"seconds", r.seconds},
                    {"losses", numbers(r.losses)},
                    {"grad_norms", numbers(r.grad_norms)}});
  }
  out["training"] = {{"runs", std::move(runs)},
                     {"unigram_entropy", report.training->unigram_entropy},
                     {"interrupted", report.training->interrupted}};
  return out;
}

}  // namespace

std::unique_ptr<Verb> make_growth() { return std::make_unique<Growth>(); }

}  // namespace prenorm::cli
