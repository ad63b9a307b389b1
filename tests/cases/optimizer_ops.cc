// Ops of the optimizer: AdamW, which tensors decay, clipping, gradients that are not finite, and
// the learning rate's schedule.
#include <cmath>
#include <limits>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/initialize.h"
#include "prenorm/train/adamw.h"
#include "prenorm/train/schedule.h"
#include "prenorm/train/trainer.h"
#include "tests/cases/registry.h"
#include "tests/cases/small_model.h"
#include "tests/temporary_folder.h"
#include "tests/tolerances.h"

namespace prenorm::cases {
namespace {

// p: a number or a tensor; grads: one of p's shape for each step.
void adamw(Case& c) {
  Floats p = floats_from(*c.input.array("p"));
  const std::size_t size = p.values.size();
  std::vector<float> first(size, 0.0f), second(size, 0.0f);
  const auto betas = c.input.array("betas");
  if (betas && betas->size() != 2) throw BadCase("input.betas: expected two numbers");
  kernels::AdamWStep step{.learning_rate = c.input.number("lr"),
                          .beta1 = betas ? (*betas)[0] : 0.9,
                          .beta2 = betas ? (*betas)[1] : 0.999,
                          .eps = c.input.number("eps", 1e-8),
                          .weight_decay = c.input.number("weight_decay", 0.0),
                          .step = 0,
                          .grad_scale = 1.0};
  const double max_norm = c.input.number("max_norm", 0.0);
  const Json& grads = c.input.at("grads");
  Array after{{static_cast<Index>(grads.size())}, {}};
  after.shape.insert(after.shape.end(), p.shape.begin(), p.shape.end());
  for (const Json& one : grads) {
    Floats grad = floats_from(array_from(one));
    if (grad.shape != p.shape) throw BadCase("input.grads: expected p's shape for each step");
    step.grad_scale =
        clip_factor(std::sqrt(kernels::sum_of_squares(c.run(), grad.values)), max_norm);
    ++step.step;
    kernels::adamw(c.run(), step, {p.values, grad.values, first, second});
    after.values.insert(after.values.end(), p.values.begin(), p.values.end());
  }
  c.check("p_after_each_step", after);
  c.check("p", array_of(p));
  c.check("exp_avg", array_of(p.shape, first));
  c.check("exp_avg_sq", array_of(p.shape, second));
}

// With zero gradients a step multiplies what decays by 1 − lr · wd and leaves the rest bit for bit.
void step_without_gradient(Case& c) {
  constexpr double kRate = 0.01, kDecay = 0.1;
  SmallModel small({.vocab_size = 11, .block_size = 4});
  std::vector<float> before;
  for (Parameter& p : small.model().parameters()) {
    for (float& value : p.value) {
      value += 0.25f;  // biases too
      before.push_back(value);
    }
  }
  AdamW optimizer(small.model().parameters(), {.weight_decay = kDecay});
  c.require(optimizer.step(c.run(), kRate).applied, "a step to be applied");
  std::size_t at = 0;
  for (const Parameter& p : small.model().parameters()) {
    const bool decays = p.shape.size() >= 2;
    for (const float value : p.value) {
      const double was = before[at], want = decays ? was * (1.0 - kRate * kDecay) : was;
      c.require(decays ? std::abs(value - want) <= tolerance::kFloatNorm * std::abs(was)
                       : value == before[at],
                p.name + (decays ? " times 1 - lr wd" : " as it was"), std::to_string(value));
      ++at;
    }
  }
}

void decay_groups(Case& c) {
  Fields shape(c.input.at("model"), "input.model");
  GptConfig config;
  config.n_layer = shape.integer("n_layer");
  config.n_embd = shape.integer("n_embd");
  config.vocab_size = shape.integer("vocab");
  config.block_size = shape.integer("block");
  config.tie_word_embeddings = shape.flag("tied_head", true);
  config.bias = shape.flag("bias", true);
  config.n_head = shape.integer("n_head", 1);
  config.n_inner = shape.integer("n_inner", 0);
  for (const std::string& key : shape.unread()) throw BadCase(key + ": not known");
  const Gpt model(config, Gpt::Mode::kInference);
  double tensors[2] = {0, 0}, elements[2] = {0, 0};
  for (const Parameter& p : model.parameters()) {
    tensors[p.decays ? 1 : 0] += 1;
    elements[p.decays ? 1 : 0] += static_cast<double>(p.size());
    c.require(p.decays == (p.shape.size() >= 2), p.name + " to decay only with two axes");
  }
  c.check("decayed_tensors", tensors[1]);
  c.check("decayed_params", elements[1]);
  c.check("undecayed_tensors", tensors[0]);
  c.check("undecayed_params", elements[0]);
  c.promise("rule");
  if (!c.promise("property").empty()) step_without_gradient(c);
}

void clip_grad_norm(Case& c) {
  const Json& given = c.input.at("grads");
  ParameterRegistry registry;
  std::vector<Array> grads;
  if (given.is_object() && !given.contains("fill")) {
    for (const auto& [name, values] : given.items()) grads.push_back(array_from(values));
  } else if (is_numeric(given)) {
    grads.push_back(array_from(given));
  } else {
    for (const Json& values : given) grads.push_back(array_from(values));
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    registry.add("p" + std::to_string(i), {grads[i].size()});
  }
  registry.allocate(true);
  std::size_t at = 0;
  for (Parameter& p : registry) {
    const Floats values = floats_from(grads[at++]);
    std::ranges::copy(values.values, p.grad.begin());
  }
  const double max_norm = c.input.number("max_norm");
  const AdamW optimizer(registry, {.grad_clip = max_norm});
  const double norm = optimizer.grad_norm(c.run());
  c.check("norm", norm);
  std::vector<double> clipped;
  for (const Parameter& p : registry) {
    for (const float g : p.grad) clipped.push_back(g * clip_factor(norm, max_norm));
  }
  if (const Json* want = c.expected.find("clipped"); want != nullptr && want->is_number()) {
    for (const double g : clipped) c.check_against("clipped", *want, Array{{}, {g}});
  } else {
    c.check("clipped", Array{{static_cast<Index>(clipped.size())}, clipped});
  }
}

// --- What is not finite
// ---------------------------------------------------------------------------

double injected_value(const std::string& inject) {
  if (mentions(inject, "nan")) return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  if (mentions(inject, "-inf")) return -infinity;
  if (mentions(inject, "inf")) return infinity;
  throw BadCase("input.inject: expected NaN or inf, found '" + inject + "'");
}

// In a gradient: the step is not applied, and no weight or moment changes.
void bad_gradient(Case& c, float bad) {
  SmallModel small({.vocab_size = 11, .block_size = 4});
  const std::vector<float> before(small.values().begin(), small.values().end());
  AdamW optimizer(small.model().parameters(), {.weight_decay = 0.1, .grad_clip = 1.0});
  for (Parameter& p : small.model().parameters()) {
    small.forward_backward(c.run(), {1, 2, 3, 4}, {2, 3, 4, 5}, 1, 0.25);
    p.grad.back() = bad;
    const AdamW::Result result = optimizer.step(c.run(), 0.01);
    c.require(!result.applied, "the step to be skipped");
    c.require(std::ranges::equal(before, small.values()), "the weights as they were");
    c.require(optimizer.steps() == 0, "no step to be counted");
  }
  small.forward_backward(c.run(), {1, 2, 3, 4}, {2, 3, 4, 5}, 1, 0.25);
  c.require(optimizer.step(c.run(), 0.01).applied, "the next good step to be applied");
  c.require(std::ranges::all_of(small.values(), [](float x) { return std::isfinite(x); }),
            "finite weights and moments after it");
}

// In a weight: training stops with a message, and what was saved before is kept.
void bad_weight(Case& c, float bad) {
  const TemporaryFolder folder("cases");
  SmallModel small({.vocab_size = 11, .block_size = 4});
  save_pretrained(small.model(), folder.path());
  const std::string saved = read_file(folder.path() / "model.safetensors");
  small.values()[0] = bad;
  std::vector<TokenId> tokens(40);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i % 11);
  Index skipped = 0;
  TrainCallbacks callbacks;
  callbacks.on_skip = [&](const SkippedStep&) { ++skipped; };
  callbacks.on_save = [&](SaveReason) { save_pretrained(small.model(), folder.path()); };
  TrainOptions options;
  options.batch_size = 2;
  options.max_iters = 20;
  options.max_bad_steps = 3;
  Trainer trainer(c.run(), small.model(), {tokens, {}}, options, callbacks);
  c.require_error("training on weights that are not finite", [&] { trainer.train(); });
  c.require(skipped == 3, "three steps to be skipped", std::to_string(skipped));
  c.require(read_file(folder.path() / "model.safetensors") == saved,
            "the checkpoint as it was saved before");
}

void train_step(Case& c) {
  const std::string inject = c.input.text("inject");
  const auto bad = static_cast<float>(injected_value(inject));
  if (!mentions(inject, "gradient") && !mentions(inject, "weight") && !mentions(inject, "loss")) {
    throw BadCase("input.inject: expected a gradient, a weight or the loss, found '" + inject +
                  "'");
  }
  if (mentions(inject, "gradient")) bad_gradient(c, bad);
  bad_weight(c, bad);
  if (c.promise("behaviour").empty()) throw BadCase("expected.behaviour: expected a text");
}

// --- Learning rate
// --------------------------------------------------------------------------------

void lr(Case& c) {
  TrainOptions options;
  options.learning_rate = c.input.number("lr");
  options.warmup_iters = c.input.integer("warmup", 0);
  options.lr_decay_iters = c.input.integer("decay_iters");
  options.min_lr = c.input.number("min_lr");
  options.lr_schedule = lr_schedule_from_string(c.input.text("schedule", "cosine"));
  Array rates{{0}, {}};
  for (const Json& iter : c.input.at("iters")) {
    rates.values.push_back(learning_rate_at(options, iter.get<Index>()));
    ++rates.shape[0];
  }
  c.check("lr", rates);
  c.require(std::ranges::all_of(rates.values, [](double x) { return std::isfinite(x); }),
            "finite rates");
}

}  // namespace

void add_optimizer_ops(Registry& ops) {
  ops["adamw"] = adamw;
  ops["decay_groups"] = decay_groups;
  ops["clip_grad_norm"] = clip_grad_norm;
  ops["train_step"] = train_step;
  ops["lr"] = lr;
}

}  // namespace prenorm::cases
