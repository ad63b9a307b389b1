#include "prenorm/cli/train.h"

#include <chrono>
#include <optional>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/format.h"
#include "prenorm/cli/interrupt.h"
#include "prenorm/cli/memory_check.h"
#include "prenorm/cli/message.h"
#include "prenorm/cli/progress_line.h"
#include "prenorm/cli/rank_session.h"
#include "prenorm/cli/run_folder.h"
#include "prenorm/cli/tokenizer_choice.h"
#include "prenorm/cli/train_flags.h"
#include "prenorm/cli/train_notices.h"
#include "prenorm/generate/generator.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/config_json.h"
#include "prenorm/text/char_tokenizer.h"
#include "prenorm/text/corpus.h"
#include "prenorm/train/metrics.h"
#include "prenorm/train/state.h"

namespace prenorm::cli {
namespace {

// The text as tokens, and the tokenizer that made them.
struct Material {
  std::unique_ptr<Tokenizer> tokenizer;
  Corpus corpus;
  std::size_t bytes = 0;

  TrainData data() const { return {corpus.train, corpus.validation}; }
};

class Train : public Verb {
 public:
  void declare(OptionTable& table) override { flags_.declare(table); }
  int run(const OptionTable& table, const Streams& streams) override;

 private:
  int run_rank(const OptionTable& table, const Streams& streams);
  // On all ranks, failing on all or on none; where there is only this one, here.
  void together(const std::function<void()>& body) const;
  void until_the_end(const std::function<void()>& body) const;
  void open_metrics(std::optional<MetricsFile>& metrics, const RunFolder& folder,
                    Index keep_through, const Streams& streams) const;
  // Whether this rank writes to the folder and prints.
  bool leads() const { return session_ == nullptr || session_->first(); }
  Runtime::Options machine() const;
  std::optional<std::filesystem::path> find_state(const RunFolder& folder,
                                                  const Streams& streams) const;
  Material read_material(const OptionTable& table,
                         const std::optional<std::filesystem::path>& state,
                         const Streams& streams) const;
  void check_same(const Tokenizer& before, const Tokenizer* now) const;
  void take_over(const OptionTable& table, const std::filesystem::path& folder);
  void agree_on_sums();
  int train(const Runtime& run, const Material& material, const RunFolder& folder,
            const std::optional<std::filesystem::path>& state, const Streams& streams);
  void tell_plan(const Runtime& run, Gpt& model, const Material& material, Index steps_done,
                 const Streams& streams) const;
  std::pair<std::string, std::string> sample(const Runtime& run, Gpt& model,
                                             const Tokenizer& tokenizer,
                                             const InterruptGuard& interrupt) const;

  TrainFlags flags_;
  std::optional<SaveSignal> save_signal_;
  std::unique_ptr<RankSession> session_;  // null: this process alone
};

int Train::run(const OptionTable& table, const Streams& streams) {
  flags_.finish(table);
  if (flags_.data.empty()) throw ConfigError("--data: expected a text file, found none");
  save_signal_.emplace();  // from the start: before there is something to save it ends nothing
  session_ = RankSession::open(flags_.rank_timeout);
  if (!session_) return run_rank(table, streams);
  try {
    return run_rank(table, session_->streams(streams));
  } catch (const RankSession::Ended& ended) {
    return ended.code;
  }
}

int Train::run_rank(const OptionTable& table, const Streams& streams) {
  const Runtime run(machine());
  RunFolder folder(flags_.out_dir);
  std::optional<std::filesystem::path> state;
  together([&] {
    if (session_) flags_.check_ranks();
    if (!leads()) return;
    folder.open();
    folder.check(flags_.resume, flags_.force);
    state = find_state(folder, streams);
  });
  Material material;
  together([&] {
    if (!leads()) state = find_state(folder, streams);
    if (state) take_over(table, *state);
    flags_.check_dtype();
    if (session_ && flags_.sums_are_open()) agree_on_sums();
    material = read_material(table, state, streams);
    if (leads()) folder.prepare(flags_.resume, flags_.force);
    if (!state) flags_.model.vocab_size = material.tokenizer->vocab_size();
  });
  return train(run, material, folder, state, streams);
}

void Train::together(const std::function<void()>& body) const {
  if (session_) {
    session_->together(body);
  } else {
    body();
  }
}

// A failure of one rank ends them all.
void Train::until_the_end(const std::function<void()>& body) const {
  if (session_) {
    session_->until_the_end(body);
  } else {
    body();
  }
}

void Train::open_metrics(std::optional<MetricsFile>& metrics, const RunFolder& folder,
                         Index keep_through, const Streams& streams) const {
  metrics.emplace(folder.metrics(), keep_through);
  for (const std::string& damage : metrics->damages()) {
    streams.log.print("warning: {}; the line is left out\n", printable(damage));
  }
}

Runtime::Options Train::machine() const {
  Runtime::Options options = flags_.common.runtime();
  if (session_ && options.threads == 0) options.threads = session_->threads();
  return options;
}

// The folder of the state to go on with, if one is asked for and there is one. What is damaged is
// told.
std::optional<std::filesystem::path> Train::find_state(const RunFolder& folder,
                                                       const Streams& streams) const {
  if (!flags_.resume) return std::nullopt;
  const std::optional<ChosenState> chosen = folder.state();
  if (!chosen) return std::nullopt;
  for (const std::string& damage : chosen->damages) {
    streams.log.print("warning: {}; {} is used\n", printable(damage),
                      printable(chosen->folder.string()));
  }
  std::optional<std::string> others;
  if (leads()) others = return_to(folder.path(), *chosen);
  if (others) {
    streams.log.print("notice: the files in {} are now those of step {} ({})\n",
                      printable(folder.path().string()), chosen->iter, printable(*others));
  }
  streams.log.flush();
  return chosen->folder;
}

// The saved run's model and options, under the flags given now.
void Train::take_over(const OptionTable& table, const std::filesystem::path& folder) {
  const TrainingStateSummary saved = read_training_state_summary(folder);
  const GptConfig before = load_config(folder);
  flags_.rebase(table, before, saved.options);
  const GptConfig& now = flags_.model;
  const auto keep = [](const char* name, auto was, auto is) {
    if (was == is) return;
    throw ConfigError(
        fmt::format("--{}: expected {} as in the run to go on with, found {}", name, was, is));
  };
  keep("n-layer", before.n_layer, now.n_layer);
  keep("n-head", before.n_head, now.n_head);
  keep("n-embd", before.n_embd, now.n_embd);
  keep("n-inner", before.feed_forward_width(), now.feed_forward_width());
  keep("block-size", before.block_size, now.block_size);
  keep("norm", norm_placement_name(before.norm), norm_placement_name(now.norm));
  keep("activation", activation_name(before.activation), activation_name(now.activation));
  keep("bias", before.bias, now.bias);
  keep("tie", before.tie_word_embeddings, now.tie_word_embeddings);
  keep("eps", before.layer_norm_epsilon, now.layer_norm_epsilon);
  keep("embd-pdrop", before.embd_pdrop, now.embd_pdrop);
  keep("attn-pdrop", before.attn_pdrop, now.attn_pdrop);
  keep("resid-pdrop", before.resid_pdrop, now.resid_pdrop);
  keep("dtype", to_string(saved.options.dtype), to_string(flags_.train.dtype));
}

// That of the machine with the fastest unit: the others emulate it.
void Train::agree_on_sums() {
  const int most = session_->largest(static_cast<int>(flags_.train.dtype));
  flags_.train.dtype = static_cast<Products>(most);
}

// Of the run to go on with and of the flag; none is "char".
void Train::check_same(const Tokenizer& before, const Tokenizer* now) const {
  const std::string_view kind = now == nullptr ? "char" : now->kind();
  if (before.kind() == kind && (now == nullptr || before.vocab_size() == now->vocab_size())) return;
  throw ConfigError(fmt::format("--tokenizer: expected {} as in the run to go on with, found {}",
                                before.kind(), flags_.tokenizer));
}

Material Train::read_material(const OptionTable& table,
                              const std::optional<std::filesystem::path>& state,
                              const Streams& streams) const {
  Material material;
  const bool given = table.given("tokenizer") || !state;
  std::unique_ptr<Tokenizer> named = given ? open_tokenizer(flags_.tokenizer) : nullptr;
  material.tokenizer = state ? load_tokenizer(*state) : std::move(named);
  if (state && given) check_same(*material.tokenizer, named.get());
  const bool bytes = material.tokenizer && !material.tokenizer->needs_utf8();
  Text text = read_text(flags_.data, bytes ? TextEncoding::kBytes : TextEncoding::kUtf8);
  material.bytes = text.bytes.size();
  if (!material.tokenizer) {
    material.tokenizer = std::make_unique<CharTokenizer>(CharTokenizer::from_text(text.bytes));
  }
  material.corpus = make_corpus(
      text, *material.tokenizer,
      {.block_size = flags_.model.block_size, .validation_fraction = flags_.train.val_fraction});
  for (const auto* notices : {&text.notices, &material.corpus.notices}) {
    for (const std::string& notice : *notices) streams.log.print("notice: {}\n", notice);
  }
  streams.log.flush();
  return material;
}

void Train::tell_plan(const Runtime& run, Gpt& model, const Material& material, Index steps_done,
                      const Streams& streams) const {
  const Index steps = std::max<Index>(0, flags_.train.max_iters - steps_done);
  TrainingPlan plan = plan_training(run, model, material.data(), flags_.train);
  if (steps_done > 0) {
    plan.seconds *= static_cast<double>(steps) / static_cast<double>(flags_.train.max_iters);
  }
  if (session_) session_->share(plan);
  streams.log.print("data    {} bytes as {} tokens: {} to train on, {} held out\n",
                    grouped(static_cast<Index>(material.bytes)), material.tokenizer->kind(),
                    grouped(static_cast<Index>(material.corpus.train.size())),
                    grouped(static_cast<Index>(material.corpus.validation.size())));
  streams.log.write(plan_lines(plan, model.config(), steps));
  streams.log.print("run     {} threads, {}; folder {}; Ctrl-C saves and ends\n", run.threads(),
                    isa_name(run.isa()), printable(flags_.out_dir));
  if (flags_.train.dtype != Products::kFloat32) {
    streams.log.write(products_lines(run.isa(), flags_.train.dtype));
  }
  if (session_) session_->tell_plan(model, flags_.train, streams);
  streams.log.flush();
}

int Train::train(const Runtime& run, const Material& material, const RunFolder& folder,
                 const std::optional<std::filesystem::path>& state, const Streams& streams) {
  const InterruptGuard interrupt;
  TrainNotices notices(streams.log);
  RunFolder::Notes notes;
  notes.facts = {{"Data", fmt::format("{}, {} bytes", printable(flags_.data.front()),
                                      grouped(static_cast<Index>(material.bytes)))},
                 {"Tokenizer", std::string(material.tokenizer->kind())}};
  std::unique_ptr<Gpt> model;
  std::optional<MetricsFile> metrics;
  std::optional<Trainer> trainer;
  TrainCallbacks callbacks;
  if (leads()) notices.attach(callbacks, metrics);
  callbacks.watch_interval = session_ ? 0 : flags_.train.watch_steps();
  callbacks.on_save = [&](SaveReason reason) {
    notes.interrupted = reason == SaveReason::kInterrupted;
    if (reason == SaveReason::kFinished) {
      notes.samples = {sample(run, *model, *material.tokenizer, interrupt)};
    }
    folder.save(*trainer, *material.tokenizer, notes);
    if (reason == SaveReason::kRequested) {
      notices.notice(fmt::format("saved at step {}", trainer->position().iter));
    }
  };
  callbacks.should_stop = [&] { return interrupt.requested(); };
  callbacks.should_save = [&] { return save_signal_->take(); };

  const TrainRanks ranks{session_ ? &session_->ranks() : nullptr, flags_.reduce};
  MemoryCheck memory;
  const auto set_up = [&] {
    memory.expect(least_training_memory(flags_.model));
    if (state) {
      model = load_pretrained(*state, Gpt::Mode::kTraining, &run);
    } else {
      model = std::make_unique<Gpt>(flags_.model, Gpt::Mode::kTraining);
    }
    model->set_products(flags_.train.dtype);
    memory.expect(plan_memory(*model, flags_.train.batch_size, 0, 0).total());
    if (!state) model->initialize(flags_.train.seed, flags_.train.init);
    trainer.emplace(run, *model, material.data(), flags_.train, callbacks, ranks);
    if (state) {
      for (const std::string& change : load_training_state(*state, *trainer)) {
        streams.log.print("notice: {}\n", change);
      }
      streams.log.print("resume  step {}\n", trainer->position().iter);
    }
    if (!leads()) return;
    if (state) folder.finish_save(*trainer);
    open_metrics(metrics, folder, state ? trainer->position().iter : -1, streams);
    tell_plan(run, *model, material, trainer->position().iter, streams);
  };
  together([&] { memory.within(set_up); });
  if (session_) session_->require_same(*trainer);

  TrainResult result;
  until_the_end([&] { result = trainer->train(); });
  notices.finish();
  tell_result(result, folder.path().string(), flags_.common.json, streams);
  return session_ ? session_->largest(interrupt.exit_code()) : interrupt.exit_code();
}

// What the model writes after a line end, for the report; at most about two seconds' worth. In
// float32, as `prenorm generate` will.
std::pair<std::string, std::string> Train::sample(const Runtime& run, Gpt& model,
                                                  const Tokenizer& tokenizer,
                                                  const InterruptGuard& interrupt) const {
  constexpr auto kLongest = std::chrono::seconds(2);
  constexpr Index kTokens = 400;
  std::vector<TokenId> prompt;
  try {
    prompt = tokenizer.encode("\n");
  } catch (const DataError&) {
    prompt = {0};
  }
  if (prompt.empty()) prompt = {0};  // WordPiece makes nothing of a line end
  GenerateOptions options;
  options.max_new_tokens = kTokens;
  const auto start = std::chrono::steady_clock::now();
  GenerateCallbacks callbacks;
  callbacks.on_token = [&](const NewToken&) {
    return !interrupt.requested() && std::chrono::steady_clock::now() - start < kLongest;
  };
  const GenerateRequest request{prompt, {flags_.train.seed, 0, 0}};
  model.set_products(Products::kFloat32);
  const auto generations = generate(run, model, {&request, 1}, options, callbacks);
  model.set_products(flags_.train.dtype);
  return {to_valid_utf8(tokenizer.decode(prompt)),
          to_valid_utf8(tokenizer.decode(generations.front().ids))};
}

}  // namespace

std::unique_ptr<Verb> make_train() { return std::make_unique<Train>(); }

}  // namespace prenorm::cli
