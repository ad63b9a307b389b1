#include "prenorm/cli/train_flags.h"

#include <limits>

#include "prenorm/base/error.h"
#include "prenorm/cli/tokenizer_choice.h"

namespace prenorm::cli {
namespace {

// Beyond any machine, and small enough that products of three stay whole numbers.
constexpr Index kLargest = Index{1} << 20;
constexpr Index kMostSteps = Index{1} << 31;
constexpr RealRange kProbability{.min = 0, .max = 0.999};

}  // namespace

TrainFlags::TrainFlags() {
  model.vocab_size = 256;
  model.block_size = 64;
  model.n_layer = 4;
  model.n_head = 4;
  model.n_embd = 128;
  model.bias = false;
}

void TrainFlags::declare(OptionTable& table) {
  table.group("Data");
  table.texts("data", data, "FILE", "text to train on, also as arguments; - is standard input")
      .from_positionals();
  table.text("tokenizer", tokenizer, "NAME", kTokenizerNames);
  table.real("val-fraction", train.val_fraction, {.min = 0, .max = 0.99},
             "the text's last part, held out to measure on");
  table.group("Run folder");
  table.text("out-dir", out_dir, "DIR", "folder of the run: model, tokenizer, state, report");
  table.flag("resume", resume, "go on with the run in the folder, if there is one")
      .may_be_followed_by("auto");
  table.flag("force", force, "replace the run in the folder");
  declare_model(table);
  declare_training(table);
  declare_optimizer(table);
  common.declare_machine(table);
  declare_ranks(table);
  table.group("Output");
  common.declare_output(table, "print one JSON object when done");
}

void TrainFlags::declare_model(OptionTable& table) {
  table.group("Model");
  table.integer("n-layer", model.n_layer, {1, kLargest}, "Transformer blocks");
  table.integer("n-head", model.n_head, {1, kLargest}, "attention heads; divides n-embd");
  table.integer("n-embd", model.n_embd, {1, kLargest}, "width");
  table.integer("n-inner", model.n_inner, {0, kLargest}, "width of the feed-forward layer")
      .shown_default("0: 4 times n-embd");
  table.integer("block-size", model.block_size, {1, kLargest}, "context: tokens a model sees");
  table.choice("norm", norm_, {"pre", "post"}, "layer norm before or after each sub-layer");
  table.choice("activation", activation_, {"relu", "gelu", "gelu-tanh"},
               "of the feed-forward layer");
  table.toggle("bias", model.bias, "biases in linear layers and layer norms");
  table.toggle("tie", model.tie_word_embeddings, "the head shares the token embedding");
  table.real("eps", model.layer_norm_epsilon, {.min = 0, .max = 1, .above_min = true},
             "added to the variance in layer norms");
  table.real("dropout", dropout_, kProbability, "sets the three below");
  table.real("embd-pdrop", model.embd_pdrop, kProbability, "dropout after the embeddings");
  table.real("attn-pdrop", model.attn_pdrop, kProbability, "dropout of attention weights");
  table.real("resid-pdrop", model.resid_pdrop, kProbability, "dropout before residual additions");
}

void TrainFlags::declare_training(OptionTable& table) {
  table.group("Training");
  table.integer("max-iters", train.max_iters, {0, kMostSteps}, "steps");
  table.integer("batch-size", train.batch_size, {1, kLargest}, "windows computed together");
  table.integer("gradient-accumulation-steps", train.gradient_accumulation_steps, {1, kLargest},
                "batches whose gradients make one step");
  table.seed("seed", train.seed, "of weights, batches and dropout");
  table.choice("init", init_, {"prenorm", "torch"},
               "random numbers of the first weights; torch: those of PyTorch for the seed");
  products_.declare(
      table, "of the products' operands; bf16: rounded to bfloat16, sums and all else in f32",
      "order of the sums in bf16, part of the run's bits; auto: this CPU's fastest");
  table.integer("eval-interval", train.eval_interval, {0, kMostSteps},
                "steps between two evaluations; 0: only at the end");
  table.integer("eval-iters", train.eval_iters, {0, kMostSteps},
                "batches of an evaluation; 0: all held-out text");
  table.integer("log-interval", train.log_interval, {1, kMostSteps},
                "steps between two progress lines");
  table.toggle("watch", train.watch,
               "record the health of each block: sizes, spread, units that are off, scores, "
               "gradients; where a number stops being finite");
  table
      .integer("watch-interval", train.watch_interval, {0, kMostSteps},
               "steps between two records of the watch")
      .shown_default("log-interval");
  table.integer("save-interval", train.save_interval, {0, kMostSteps},
                "steps between two saves; 0: after each evaluation");
  table.real("save-every-minutes", train.save_every_minutes, {.min = 0, .max = 1e6},
             "a save as well when the last one is so old; 0: none");
  table.toggle("save-best", train.save_best,
               "keep the state with the lowest validation loss in best/");
  table.integer("keep", train.keep, {1, kLargest}, "newest states kept, as checkpoint-N folders");
  table.integer("patience", train.patience, {0, kMostSteps},
                "evaluations without a lower validation loss before training ends; 0: no end");
  table.integer("max-bad-steps", train.max_bad_steps, {1, kMostSteps},
                "steps in a row skipped for numbers that are not finite before training gives up");
}

void TrainFlags::declare_optimizer(OptionTable& table) {
  constexpr RealRange kRate{.min = 0, .max = 1e6};
  constexpr RealRange kBeta{.min = 0, .max = 0.9999999999};
  table.group("Optimizer (AdamW)");
  table.real("learning-rate", train.learning_rate, kRate, "the highest, after the warm-up");
  table.real("min-lr", min_lr_, kRate, "the lowest, at the end")
      .shown_default("learning-rate / 10");
  table.integer("warmup-iters", warmup_iters_, {0, kMostSteps}, "steps of the warm-up")
      .shown_default("max-iters / 20, at most 100");
  table.integer("lr-decay-iters", lr_decay_iters_, {1, kMostSteps}, "step that reaches min-lr")
      .shown_default("max-iters");
  table.choice("lr-schedule", lr_schedule_, {"cosine", "linear", "constant"},
               "how the learning rate falls");
  table.real("weight-decay", train.weight_decay, kRate, "of matrices; norms and biases have none");
  table.real("beta1", train.beta1, kBeta, "decay of the mean gradient");
  table.real("beta2", train.beta2, kBeta, "decay of the mean square");
  table.real("grad-clip", train.grad_clip, kRate, "largest gradient norm; 0: no clipping");
}

void TrainFlags::declare_ranks(OptionTable& table) {
  constexpr RealRange kSeconds{.min = 0, .max = 1e6};
  table.group("Many machines (under mpirun)");
  table.choice("reduce", reduce_, {"exact", "fast"},
               "how gradients are added over ranks; exact: to the bits of one rank alone");
  table.real("rank-timeout", rank_timeout, kSeconds,
             "seconds after which a rank that keeps the others waiting ends the run; longer than a "
             "save and an evaluation; 0: never");
}

void TrainFlags::finish(const OptionTable& table) {
  if (table.given("norm")) model.norm = norm_placement_from_name(norm_).value();
  if (table.given("activation")) model.activation = activation_from_name(activation_).value();
  if (table.given("watch-interval") && !train.watch && train.watch_interval > 0) {
    throw ConfigError("--watch-interval: expected --watch with it, found none");
  }
  if (table.given("dropout")) {
    if (!table.given("embd-pdrop")) model.embd_pdrop = dropout_;
    if (!table.given("attn-pdrop")) model.attn_pdrop = dropout_;
    if (!table.given("resid-pdrop")) model.resid_pdrop = dropout_;
  }
  reduce = reduce_ == "fast" ? Reduce::kFast : Reduce::kExact;
  if (table.given("lr-schedule")) train.lr_schedule = lr_schedule_from_string(lr_schedule_);
  if (table.given("init")) train.init = initialization_from_string(init_);
  finish_dtype(table);
  if (table.given("min-lr")) train.min_lr = min_lr_;
  if (table.given("warmup-iters")) train.warmup_iters = warmup_iters_;
  if (table.given("lr-decay-iters")) train.lr_decay_iters = lr_decay_iters_;
  model.validate();
  train.validate();
}

// A run that goes on keeps its order of sums unless told otherwise.
void TrainFlags::finish_dtype(const OptionTable& table) {
  if (table.given("dtype")) {
    sums_are_open_ = !products_.float32() && train.dtype == Products::kFloat32;
    if (products_.float32()) train.dtype = Products::kFloat32;
    if (sums_are_open_) train.dtype = fastest_bf16_products(isa_from_name(common.isa));
  }
  const std::optional<Products> order = products_.order();
  if (!order || train.dtype == Products::kFloat32) return;
  sums_are_open_ = false;
  train.dtype = *order;
}

void TrainFlags::check_dtype() const {
  if (!products_.order() || train.dtype != Products::kFloat32) return;
  throw ConfigError("--bf16-sums: expected --dtype bf16 with it, found f32");
}

void TrainFlags::check_ranks() const {
  for (const std::string& file : data) {
    if (file == "-") {
      throw ConfigError("--data: expected files that every rank can read, found standard input");
    }
  }
}

void TrainFlags::rebase(const OptionTable& table, const GptConfig& saved_model,
                        const TrainOptions& saved_train) {
  model = saved_model;
  train = saved_train;
  table.apply_given();
  finish(table);
}

}  // namespace prenorm::cli
