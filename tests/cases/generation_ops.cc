// Ops of whole continuations: greedy ids past the context, rows that end at their own step, ids
// that no tokenizer has.
#include <algorithm>
#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/generate/generator.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/config_json.h"
#include "prenorm/train/adamw.h"
#include "tests/cases/registry.h"
#include "tests/cases/small_model.h"
#include "tests/tolerances.h"

namespace prenorm::cases {
namespace {

using Tokens = std::vector<TokenId>;

SamplerOptions read_sampler(Case& c) {
  SamplerOptions sampler;
  sampler.temperature = c.input.number("temperature", 1.0);
  sampler.top_k = c.input.integer("top_k", 0);
  sampler.top_p = c.input.number("top_p", 1.0);
  sampler.min_p = c.input.number("min_p", 0.0);
  sampler.repeat_penalty = c.input.number("repetition_penalty", 1.0);
  return sampler;
}

// --- Greedy continuations
// -------------------------------------------------------------------------

// The smallest distance between the two largest logits that chose one of ids[from …].
double smallest_gap(Case& c, const Gpt& model, const Tokens& ids, std::size_t from) {
  double smallest = HUGE_VAL;
  const auto context = static_cast<std::size_t>(model.config().block_size);
  for (std::size_t at = from; at < ids.size(); ++at) {
    const std::size_t begin = at > context ? at - context : 0;
    std::vector<float> logits =
        logits_of(c.run(), model, std::span(ids).subspan(begin, at - begin));
    logits.erase(logits.begin(), logits.end() - model.config().vocab_size);
    std::ranges::partial_sort(logits, logits.begin() + 2, std::greater<>());
    smallest = std::min(smallest, static_cast<double>(logits[0]) - logits[1]);
  }
  return smallest;
}

void hf_gpt2_generate(Case& c) {
  const std::filesystem::path folder = c.file(c.input.text("model_dir"));
  const std::unique_ptr<Gpt> model = load_pretrained(folder, Gpt::Mode::kInference);
  const Tokens prompt = tokens_from(c.input.at("prompt"));
  GenerateOptions options;
  options.sampler = read_sampler(c);
  options.max_new_tokens = c.input.integer("max_new_tokens");
  options.slide = c.input.flag("slide", true);
  if (!c.input.flag("ignore_eos", false)) {
    options.eos_tokens = load_eos_token_ids(folder);
    if (c.input.has("eos")) options.eos_tokens = {static_cast<TokenId>(c.input.integer("eos"))};
  }
  const auto seed = static_cast<std::uint64_t>(c.input.integer("seed", 0));
  bool told = false;
  GenerateCallbacks callbacks;
  callbacks.on_slide = [&] { told = true; };
  const GenerateRequest request{prompt, {.seed = seed, .prompt = 0, .sample = 0}};
  const Generation made = generate(c.run(), *model, {&request, 1}, options, callbacks).front();
  Tokens ids = prompt;
  ids.insert(ids.end(), made.ids.begin(), made.ids.end());
  c.check("ids", ids);
  c.check("new_ids", made.ids);
  // The last token is chosen from those before it.
  const bool beyond = static_cast<Index>(ids.size()) - 1 > model->config().block_size;
  c.require(told == beyond, "a notice exactly where the window slides");
  if (const Json* gap = c.expected.find("min_top2_logit_gap")) {
    c.check_against("min_top2_logit_gap", *gap,
                    Array{{}, {smallest_gap(c, *model, ids, prompt.size())}},
                    {.abs = tolerance::kCaseLogits, .rel = 0.0});
  }
}

// --- Rows of a batch
// ------------------------------------------------------------------------------

// A model that says each script after its own prompt token, taught by a few hundred steps.
class Teleprompter {
 public:
  Teleprompter(Case& c, const std::vector<Tokens>& scripts)
      : scripts_(scripts), vocabulary_(vocabulary_of(scripts)), small_(options()) {
    Tokens inputs, targets;
    const std::size_t time = scripts.front().size();
    for (std::size_t row = 0; row < scripts.size(); ++row) {
      Tokens line = {prompt(row)};
      line.insert(line.end(), scripts[row].begin(), scripts[row].end());
      inputs.insert(inputs.end(), line.begin(), line.end() - 1);
      targets.insert(targets.end(), line.begin() + 1, line.end());
    }
    AdamW optimizer(small_.model().parameters(), {.weight_decay = 0.0, .grad_clip = 1.0});
    const double scale = 1.0 / static_cast<double>(scripts.size() * time);
    for (int step = 0; step < kMostSteps; ++step) {
      const LossSum loss = small_.forward_backward(c.run(), inputs, targets,
                                                   static_cast<Index>(scripts.size()), scale);
      if (loss.mean() < kLearned) return;
      optimizer.step(c.run(), kRate);
    }
    throw BadCase("input.scripted_tokens: expected scripts that a small model learns");
  }

  std::vector<Tokens> say(Case& c, Index count, const Tokens& eos) {
    std::vector<Tokens> prompts;
    std::vector<GenerateRequest> requests;
    for (std::size_t row = 0; row < scripts_.size(); ++row) prompts.push_back({prompt(row)});
    for (const Tokens& one : prompts) requests.push_back({one, {}});
    GenerateOptions options;
    options.sampler.temperature = 0.0;
    options.max_new_tokens = count;
    options.eos_tokens = eos;
    std::vector<Tokens> said;
    shown_.assign(scripts_.size(), {});
    GenerateCallbacks callbacks;
    callbacks.on_token = [&](const NewToken& token) {
      shown_[token.request].push_back(token.id);
      return true;
    };
    for (const Generation& row : generate(c.run(), small_.model(), requests, options, callbacks)) {
      said.push_back(row.ids);
    }
    return said;
  }
  // The tokens that say() streamed, by row.
  const std::vector<Tokens>& shown() const { return shown_; }

 private:
  static constexpr int kMostSteps = 2000;
  static constexpr double kLearned = 0.02, kRate = 0.01;

  static Index vocabulary_of(const std::vector<Tokens>& scripts) {
    TokenId largest = 0;
    for (const Tokens& script : scripts) {
      if (script.empty() || script.size() != scripts.front().size()) {
        throw BadCase("input.scripted_tokens: expected rows of equal length");
      }
      largest = std::max(largest, std::ranges::max(script));
    }
    return largest + 1;
  }
  SmallModel::Options options() const {
    return {.vocab_size = vocabulary_ + static_cast<Index>(scripts_.size()),
            .block_size = static_cast<Index>(scripts_.front().size()),
            .n_layer = 1,
            .n_embd = 32};
  }
  TokenId prompt(std::size_t row) const {
    return static_cast<TokenId>(vocabulary_ + static_cast<Index>(row));
  }

  std::vector<Tokens> scripts_, shown_;
  Index vocabulary_;
  SmallModel small_;
};

void batch_generate(Case& c) {
  std::vector<Tokens> scripts;
  for (const Json& row : c.input.at("scripted_tokens")) scripts.push_back(tokens_from(row));
  const Json& ends = c.input.at("eos");  // one id or several
  const Tokens eos = tokens_from(ends.is_array() ? ends : Json::array({ends}));
  if (scripts.empty() || eos.empty()) throw BadCase("input: expected scripts and an eos");
  std::size_t longest = 0;
  for (const Tokens& script : scripts) longest = std::max(longest, script.size());
  for (Tokens& script : scripts) script.resize(longest, eos.front());
  const Index count = c.input.integer("max_new_tokens");
  Teleprompter model(c, scripts);
  for (Tokens& script : scripts) {
    script.resize(std::min(script.size(), static_cast<std::size_t>(count)));
  }
  c.require(model.say(c, count, {}) == scripts, "the whole scripts where nothing ends a row");
  const std::vector<Tokens> rows = model.say(c, count, eos);
  const Json& want = c.expected.at("rows");
  c.require(want.size() == rows.size(), "as many rows as scripts");
  for (std::size_t row = 0; row < rows.size() && row < want.size(); ++row) {
    c.check_against(
        "rows[" + std::to_string(row) + "]", want[row],
        Array{{static_cast<Index>(rows[row].size())}, {rows[row].begin(), rows[row].end()}});
  }
  // "pad/eos only, not shown in text"
  if (!c.promise("padding_after_eos").empty()) {
    c.require(model.shown() == rows, "nothing to be shown after a row's end");
  }
}

// --- Ids that no tokenizer has
// ----------------------------------------------------------------------

// A model whose vocabulary is larger than its tokenizer's never says the ids between, however
// likely.
void never_says_unknown_ids(Case& c, Index tokenizer) {
  constexpr Index kPadding = 5;
  const Index known = std::min<Index>(tokenizer, 20);
  SmallModel small({.vocab_size = known + kPadding, .block_size = 8, .tie = false});
  for (Parameter& p : small.model().parameters()) {
    if (p.name != "lm_head.weight") continue;
    // Padding rows with the largest logits that there are.
    for (Index v = known; v < known + kPadding; ++v) {
      for (Index i = 0; i < p.shape[1]; ++i) {
        p.value[static_cast<std::size_t>(v * p.shape[1] + i)] *= 50.0f;
      }
    }
  }
  const Tokens prompt = {1};
  bool unlimited_says_them = false;
  for (const double temperature : {0.0, 1.0}) {
    for (const Index limit : {Index{0}, known}) {
      GenerateOptions options;
      options.sampler.temperature = temperature;
      options.max_new_tokens = 40;
      options.vocab_size = limit;
      const GenerateRequest request{prompt, {.seed = 1, .prompt = 0, .sample = 0}};
      const Generation made = generate(c.run(), small.model(), {&request, 1}, options).front();
      for (const TokenId id : made.ids) {
        if (limit == 0) unlimited_says_them = unlimited_says_them || id >= known;
        c.require(limit == 0 || id < known, "no id that the tokenizer lacks", std::to_string(id));
      }
    }
  }
  c.require(unlimited_says_them, "a model that would say ids of the padding");
}

void decode(Case& c) {
  const Tokens ids = tokens_from(c.input.at("ids"));
  const Index model = c.input.integer("vocab_model", 0);
  const Tokenizer& tokenizer = c.session().gpt2();
  bool unknown = false;
  for (const TokenId id : ids) {
    if (id >= 0 && id < tokenizer.vocab_size()) {
      c.require(!tokenizer.decode(id).empty(), "text for id " + std::to_string(id));
    } else {
      unknown = true;
      c.require_error("decoding an unknown id", [&] { tokenizer.decode(id); },
                      {std::to_string(id)});
    }
  }
  if (unknown) c.require_error("decoding the list", [&] { tokenizer.decode(ids); });
  if (!unknown) {
    c.check_text("text", tokenizer.decode(ids));
    c.check_text("bytes_hex", hex_of(tokenizer.decode(ids)));
  }
  if (model > tokenizer.vocab_size()) never_says_unknown_ids(c, tokenizer.vocab_size());
  c.promise("behaviour");
}

}  // namespace

void add_generation_ops(Registry& ops) {
  ops["hf_gpt2_generate"] = hf_gpt2_generate;
  ops["batch_generate"] = batch_generate;
  ops["decode"] = decode;
}

}  // namespace prenorm::cases
