// Ops of models in training: windows, initialisation, dropout, causality.
#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "prenorm/generate/generator.h"
#include "prenorm/kernels/dropout.h"
#include "prenorm/layers/xavier_uniform.h"
#include "prenorm/text/corpus.h"
#include "tests/cases/registry.h"
#include "tests/cases/small_model.h"
#include "tests/tolerances.h"

namespace prenorm::cases {
namespace {

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

// --- Data
// -----------------------------------------------------------------------------------------

void windows(Case& c) {
  const Index count = c.input.integer("n_tokens"), block = c.input.integer("block_size");
  std::vector<TokenId> tokens, starts;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(i));
  const Index windows = token_window_count(count, block);
  c.check("count", static_cast<double>(windows));
  for (Index start = 0; start < windows; ++start) {
    const TokenWindow window = token_window(tokens, start, block);
    starts.push_back(window.inputs[0]);
    c.require(static_cast<Index>(window.inputs.size()) == block &&
                  static_cast<Index>(window.targets.size()) == block,
              "windows of block_size tokens");
    if (start == 0) {
      c.check("first_x", window.inputs);
      c.check("first_y", window.targets);
    }
    if (start + 1 == windows) {
      c.check("last_x", window.inputs);
      c.check("last_y", window.targets);
    }
  }
  c.check("starts", starts);
}

// --- Initialisation
// -------------------------------------------------------------------------------

// "0.02/sqrt(2*n_layer): n_layer=12 -> 0.00408": the weights of such a model against the last
// number.
void residual_projections(Case& c, const std::string& rule, double deviation) {
  std::smatch found;
  static const std::regex kRule(R"(n_layer\s*=\s*(\d+)\s*->\s*([\d.eE-]+))");
  if (!std::regex_search(rule, found, kRule)) {
    throw BadCase("expected.residual_projection_std: not understood");
  }
  const SmallModel::Options options{.vocab_size = 11,
                                    .block_size = 4,
                                    .n_layer = std::stoll(found[1]),
                                    .n_head = 1,
                                    .n_embd = 32,
                                    .initializer_range = deviation};
  Gpt model(options.config(), Gpt::Mode::kInference);
  model.initialize(1);
  double squares = 0.0, count = 0.0;
  for (const Parameter& p : model.parameters()) {
    if (!p.name.ends_with("c_proj.weight")) continue;
    for (const float x : p.value) squares += static_cast<double>(x) * x;
    count += static_cast<double>(p.size());
  }
  const double measured = std::sqrt(squares / count), want = std::stod(found[2]);
  const double error = want / std::sqrt(2.0 * count);  // of a standard deviation of so many numbers
  c.require(std::abs(measured - want) <= tolerance::kSigmas * error,
            fmt::format("residual projections of deviation {}", want), fmt::format("{}", measured));
}

void first_loss(Case& c) {
  const Array vocabularies = *c.input.array("vocab");
  const Array logs = *c.expected.array("ln_vocab");
  if (logs.size() != vocabularies.size()) throw BadCase("expected.ln_vocab: not one a vocabulary");
  const double deviation = c.input.number("init_std", 0.02);
  double above = c.tolerance.abs, below = c.tolerance.abs;
  std::smatch band;
  const std::string text = c.promise("band");
  if (std::regex_search(text, band, std::regex(R"(\+([\d.]+)/-([\d.]+))"))) {
    above = std::stod(band[1]);
    below = std::stod(band[2]);
  }
  for (Index i = 0; i < vocabularies.size(); ++i) {
    const auto vocabulary = static_cast<Index>(vocabularies[i]);
    c.check_against(fmt::format("ln_vocab[{}]", i), logs[i], Array{{}, {std::log(vocabularies[i])}},
                    {.abs = tolerance::kDoubleSum, .rel = tolerance::kDoubleSum});
    constexpr Index kTime = 32;
    const SmallModel::Options options{.vocab_size = vocabulary,
                                      .block_size = kTime,
                                      .n_embd = 32,
                                      .initializer_range = deviation};
    Gpt model(options.config(), Gpt::Mode::kInference);
    model.initialize(1);
    std::vector<TokenId> inputs, targets;
    for (Index t = 0; t < kTime; ++t) {
      inputs.push_back(static_cast<TokenId>((t * 7919 + 3) % vocabulary));
      targets.push_back(static_cast<TokenId>((t * 104729 + 11) % vocabulary));
    }
    Gpt::Workspace work = model.make_workspace(1, kTime);
    const double loss = model
                            .evaluate(c.run(), work,
                                      {TokenMatrix(inputs.data(), {1, kTime}),
                                       TokenMatrix(targets.data(), {1, kTime})})
                            .mean();
    c.require(loss <= logs[i] + above && loss >= logs[i] - below,
              fmt::format("a first loss within +{}/-{} of {}", above, below, logs[i]),
              std::to_string(loss));
  }
  const std::string rule = c.promise("residual_projection_std");
  if (!rule.empty()) residual_projections(c, rule, deviation);
}

// The largest absolute value of many draws, which comes close to the bound and never beyond.
void check_xavier(Case& c, const std::string& key, Index in, Index out) {
  if (!c.expected.has(key)) return;
  const double bound = xavier_uniform_bound(in, out);
  c.check(key, bound);
  ParameterRegistry registry;
  Parameter& weight = registry.add("weight", {in, out});
  registry.allocate(false);
  xavier_uniform(weight, 1, 0);
  float largest = 0.0f;
  for (const float x : weight.value) largest = std::max(largest, std::abs(x));
  const double misses = 20.0 / static_cast<double>(weight.size());  // 2e-9 that all lie lower
  c.require(largest <= bound && largest >= bound * (1.0 - misses),
            "weights up to " + std::to_string(bound), std::to_string(largest));
}

void xavier_bound(Case& c) {
  const Index d = c.input.integer("d");
  check_xavier(c, "packed_3d_x_d", d, 3 * d);
  check_xavier(c, "separate_d_x_d", d, d);
}

// --- Dropout
// --------------------------------------------------------------------------------------

// Around an evaluation, the training pass of one place in training keeps its bits, and dropout is
// on.
void training_around_an_evaluation(Case& c, double p) {
  SmallModel small({.vocab_size = 13, .block_size = 8, .dropout = p});
  const std::vector<TokenId> inputs = {1, 2, 3, 4, 5, 6, 7, 8}, targets = {2, 3, 4, 5, 6, 7, 8, 9};
  const Gpt::DropoutPosition at{.seed = 5, .step = 3, .first_sequence = 0};
  const double before = small.forward_backward(c.run(), inputs, targets, 1, 1.0, at).loss;
  const double evaluated = small.evaluate(c.run(), inputs, targets).loss;
  const double after = small.forward_backward(c.run(), inputs, targets, 1, 1.0, at).loss;
  c.require(before == after, "the same training loss before and after an evaluation");
  c.require(before != evaluated, "dropout in training and none in an evaluation");
}

void dropout(Case& c) {
  const Array given = *c.input.array("x");
  const double p = c.input.number("p");
  const Floats x = floats_from(given);
  const Index size = static_cast<Index>(x.values.size());
  Floats y(x.shape), dx(x.shape), ones(x.shape);
  std::ranges::fill(ones.values, 1.0f);
  kernels::Dropout drop;
  drop.stream = {.seed = 1, .purpose = Purpose::kEmbeddingDropout, .step = 0, .layer = 0};
  drop.p = p;
  const auto pass = [&](const Floats& in, Floats& out) {
    kernels::dropout(c.run(), drop, in.matrix(), {}, out.matrix());
  };
  pass(x, y);
  pass(ones, dx);
  const auto scale = static_cast<float>(1.0 / (1.0 - p));
  double kept = 0.0;
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    c.require(y.values[i] == 0.0f || y.values[i] == x.values[i] * scale,
              "0 or the input times 1 / (1 - p)", std::to_string(y.values[i]));
    c.require(dx.values[i] == (y.values[i] == 0.0f ? 0.0f : scale) || x.values[i] == 0.0f,
              "a gradient of the mask times 1 / (1 - p)", std::to_string(dx.values[i]));
    kept += dx.values[i] == 0.0f ? 0.0 : 1.0;
  }
  const double share = kept / static_cast<double>(size),
               error = std::sqrt(p * (1.0 - p) / static_cast<double>(size));
  c.require(std::abs(share - (1.0 - p)) <= tolerance::kSigmas * error, "a share of 1 - p kept",
            std::to_string(share));
  if (p > 0.0) training_around_an_evaluation(c, p);
  c.promise("property");
}

std::vector<TokenId> continued(Case& c, const Gpt& model, double temperature) {
  const std::vector<TokenId> prompt = {1, 2, 3};
  const GenerateRequest request{prompt, {.seed = 3, .prompt = 0, .sample = 0}};
  GenerateOptions options;
  options.sampler.temperature = temperature;
  options.max_new_tokens = 12;
  return generate(c.run(), model, {&request, 1}, options).front().ids;
}

void eval_loss(Case& c) {
  const Array rates = *c.input.array("dropout");
  const Index repeat = c.input.integer("repeat", 1);
  std::vector<TokenId> inputs, targets;
  for (TokenId t = 0; t < 8; ++t) {
    inputs.push_back(t * 5 % 13);
    targets.push_back((t * 5 + 2) % 13);
  }
  std::optional<double> first;
  std::vector<TokenId> greedy, sampled;
  for (Index i = 0; i < std::max<Index>(1, rates.size()); ++i) {
    SmallModel small({.vocab_size = 13, .block_size = 8, .dropout = rates[i]});
    for (Index pass = 0; pass < repeat; ++pass) {
      const double loss = small.evaluate(c.run(), inputs, targets).mean();
      if (!first) first = loss;
      c.require(loss == *first, "one evaluation loss, bit for bit, whatever the dropout",
                fmt::format("{} and {}", loss, *first));
    }
    if (rates[i] > 0.0) training_around_an_evaluation(c, rates[i]);
    if (i == 0) {
      greedy = continued(c, small.model(), 0.0);
      sampled = continued(c, small.model(), 1.0);
    }
    c.require(
        continued(c, small.model(), 0.0) == greedy && continued(c, small.model(), 1.0) == sampled,
        "the same generated tokens whatever the dropout");
  }
  c.promise("property");
}

// --- Causality
// ------------------------------------------------------------------------------------

// Two token sequences that are equal up to some place, and a model for them.
struct Twins {
  std::vector<TokenId> a, b;
  Index same = 0;  // leading tokens that are equal
  SmallModel::Options options;

  std::vector<float> shared(const std::vector<float>& logits) const {
    return {logits.begin(), logits.begin() + same * options.vocab_size};
  }
  std::vector<float> logits(const Runtime& run, const std::vector<TokenId>& tokens) const {
    return shared(SmallModel(options).logits(run, tokens));
  }
};

// The loss of target t alone, with dropout on, does not depend on later tokens; and no gradient
// reaches their positions.
void causal_in_training(Case& c, Twins twins, double p) {
  twins.options.dropout = p;
  twins.options.tie = false;
  SmallModel small(twins.options);
  const Gpt::DropoutPosition at{.seed = 9, .step = 1, .first_sequence = 0};
  const Index time = static_cast<Index>(twins.a.size());
  for (Index t = 0; t < twins.same; ++t) {
    std::vector<TokenId> targets(twins.a.size(), -1);
    targets[static_cast<std::size_t>(t)] = 1;
    const double loss = small.forward_backward(c.run(), twins.a, targets, 1, 1.0, at).loss;
    const Array positions = small.gradient("wpe.weight");
    for (Index u = t + 1; u < time; ++u) {
      for (Index i = 0; i < positions.columns(); ++i) {
        c.require(positions[u * positions.columns() + i] == 0.0,
                  fmt::format("no gradient of the loss at {} at position {}", t, u));
      }
    }
    double reached = 0.0;  // dropout may leave out a part of it
    for (Index i = 0; i < positions.columns(); ++i) {
      reached += std::abs(positions[t * positions.columns() + i]);
    }
    c.require(reached > 0.0, "a gradient at the position itself");
    c.require(small.forward_backward(c.run(), twins.b, targets, 1, 1.0, at).loss == loss,
              fmt::format("the loss at {} with dropout {} to be the same for both", t, p));
  }
}

void causal_with_cache(Case& c, const Twins& twins, const std::vector<float>& want) {
  const SmallModel small(twins.options);
  for (const std::vector<TokenId>& tokens : {twins.a, twins.b}) {
    std::vector<std::vector<TokenId>> chunks;
    for (Index t = 0; t < twins.same; ++t) chunks.push_back({tokens[static_cast<std::size_t>(t)]});
    std::vector<float> found;
    for (const auto& logits : logits_by_chunks(c.run(), small.model(), chunks)) {
      found.insert(found.end(), logits.begin(), logits.end());
    }
    c.require(same_bits(found, want), "the same bits with a cache as without");
  }
}

void gpt_forward(Case& c) {
  Twins twins{tokens_from(c.input.at("tokens_a")), tokens_from(c.input.at("tokens_b")), 0, {}};
  if (twins.a.empty() || twins.a.size() != twins.b.size())
    throw BadCase("input: tokens_a, tokens_b: expected as many");
  const auto differs = std::ranges::mismatch(twins.a, twins.b).in1;
  twins.same = differs - twins.a.begin();
  if (twins.same == 0) throw BadCase("input: tokens_a, tokens_b: expected a common beginning");
  const TokenId largest = std::max(std::ranges::max(twins.a), std::ranges::max(twins.b));
  twins.options = {.vocab_size = std::max<Index>(8, largest + 1),
                   .block_size = static_cast<Index>(twins.a.size())};
  const std::vector<float> want = twins.logits(c.run(), twins.a);
  c.require(same_bits(twins.logits(c.run(), twins.b), want), "the same logits for both");
  for (const Json& word : c.input.at("vary")) {
    const std::string vary = word.get<std::string>();
    if (vary.starts_with("dropout")) {
      for (const double p : {0.0, 0.5}) causal_in_training(c, twins, p);
    } else if (vary.starts_with("T=")) {
      for (Index t = 1; t <= twins.same; ++t) {
        const std::vector<float> part =
            SmallModel(twins.options)
                .logits(c.run(), std::span(twins.b).first(static_cast<std::size_t>(t)));
        c.require(same_bits(part, std::span(want).first(part.size())),
                  fmt::format("the same logits for {} tokens alone", t));
      }
    } else if (vary.starts_with("threads")) {
      for (const int threads : {1, 2, 3, 8}) {
        const Runtime run(Runtime::Options{.threads = threads});
        c.require(same_bits(twins.logits(run, twins.b), want),
                  fmt::format("the same logits with {} threads", threads));
      }
    } else if (vary.starts_with("kv_cache") || vary.starts_with("cache")) {
      causal_with_cache(c, twins, want);
    } else if (vary != "return_weights") {  // no pass returns weights: there is no such path
      throw BadCase("input.vary: '" + vary + "': not known");
    }
  }
  causal_in_training(c, twins, 0.0);
  c.promise("property");
}

}  // namespace

void add_training_ops(Registry& ops) {
  ops["windows"] = windows;
  ops["first_loss"] = first_loss;
  ops["xavier_bound"] = xavier_bound;
  ops["dropout"] = dropout;
  ops["eval_loss"] = eval_loss;
  ops["gpt_forward"] = gpt_forward;
}

}  // namespace prenorm::cases
