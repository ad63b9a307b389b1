#include "prenorm/cli/eval.h"

#include <cmath>
#include <optional>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/format.h"
#include "prenorm/text/corpus.h"
#include "prenorm/train/evaluation.h"

namespace prenorm::cli {
namespace {

class Eval : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Input");
    table.text("model", folder_, "DIR", "model folder").short_name('m');
    table.texts("data", files_, "FILE", "text to predict; - is standard input").from_positionals();
    table.group("Evaluation");
    table
        .integer("window", window_, {0, kMostTokens},
                 "tokens of a window; windows stand side by side, the last one short")
        .shown_default("the model's context");
    table
        .integer("stride", stride_, {1, kMostTokens},
                 "tokens from one window to the next, so that windows overlap")
        .shown_default("side by side");
    table.integer("batch-size", batch_, {1, kMostTokens}, "windows computed together");
    common_.declare_machine(table);
    table.group("Output");
    common_.declare_output(table, "print one JSON object: loss, perplexity, bits_per_byte, tokens");
  }

  int run(const OptionTable&, const Streams& streams) override {
    if (files_.empty()) throw ConfigError("--data: expected a text file, found none");
    const Runtime run(common_.runtime());
    const LoadedModel loaded = load_model(run, folder_);
    const Index context = loaded.model->config().block_size;
    if (window_ > context) {
      throw ConfigError("--window: expected at most the model's context of " +
                        std::to_string(context) + ", found " + std::to_string(window_));
    }
    const Index window = window_ > 0 ? window_ : context;
    if (stride_ > window) {
      throw ConfigError("--stride: expected at most the window's " + std::to_string(window) +
                        " tokens, found " + std::to_string(stride_));
    }
    if (stride_ > 0 && window < 2) {
      throw ConfigError("--window: expected at least 2 with --stride, found 1");
    }
    const Tokenizer& tokenizer = *loaded.tokenizer;
    const Text text =
        read_text(files_, tokenizer.needs_utf8() ? TextEncoding::kUtf8 : TextEncoding::kBytes);
    for (const std::string& notice : text.notices) streams.log.print("{}\n", notice);
    const std::vector<TokenId> tokens = encode_text(text, tokenizer);
    if (tokens.size() < 2) {
      throw DataError(files_.front() +
                      ": expected at least 2 tokens, one to predict from and one "
                      "to predict, found " +
                      std::to_string(tokens.size()));
    }
    report(run, loaded, tokens, text.bytes.size(), streams);
    return kDone;
  }

 private:
  static constexpr Index kMostTokens = Index{1} << 31;

  struct MeanLoss {
    double loss;
    Index tokens;  // that were predicted
  };

  std::optional<MeanLoss> loss_of(const Runtime& run, const LoadedModel& loaded,
                                  const std::vector<TokenId>& tokens) const {
    const Gpt& model = *loaded.model;
    const Index window = window_ > 0 ? window_ : model.config().block_size;
    if (stride_ > 0) {
      const auto sum = evaluate_strided(run, model, tokens,
                                        {.window = window, .stride = stride_, .batch = batch_});
      if (!sum) return std::nullopt;
      return MeanLoss{sum->mean(), sum->count};
    }
    const Index predicted = static_cast<Index>(tokens.size()) - 1;
    const Index time = std::min(window, predicted);
    const Index batch = std::min(batch_, (predicted + time - 1) / time);
    Gpt::Workspace work = model.make_workspace(batch, time);
    const auto mean = evaluate_windows(run, model, work, tokens,
                                       {.time = time, .batch = batch, .max_windows = 0});
    if (!mean) return std::nullopt;
    return MeanLoss{*mean, predicted};
  }

  // Bytes of the tokens that are predicted from nothing, which do not count.
  std::size_t unpredicted_bytes(const LoadedModel& loaded,
                                const std::vector<TokenId>& tokens) const {
    const Index window = window_ > 0 ? window_ : loaded.model->config().block_size;
    std::size_t bytes = loaded.tokenizer->decode(tokens.front()).size();
    if (stride_ != window) return bytes;  // every other token has one before it in a window
    for (auto at = static_cast<std::size_t>(stride_); at < tokens.size();
         at += static_cast<std::size_t>(stride_)) {
      bytes += loaded.tokenizer->decode(tokens[at]).size();
    }
    return bytes;
  }

  void report(const Runtime& run, const LoadedModel& loaded, const std::vector<TokenId>& tokens,
              std::size_t bytes, const Streams& streams) const {
    const auto mean = loss_of(run, loaded, tokens);
    if (!mean || !std::isfinite(mean->loss)) {
      throw NumericalError(folder_ + ": expected a finite loss, found " +
                           (mean ? number_text(mean->loss) : "none"));
    }
    const auto [loss, predicted] = *mean;
    const double predicted_bytes = static_cast<double>(bytes - unpredicted_bytes(loaded, tokens));
    const double bits_per_byte =
        loss * static_cast<double>(predicted) / std::log(2.0) / predicted_bytes;
    const double perplexity = std::exp(loss);
    if (common_.json) {
      streams.out.write(dump_json_compact({{"loss", loss},
                                           {"perplexity", perplexity},
                                           {"bits_per_byte", bits_per_byte},
                                           {"tokens", predicted}}) +
                        "\n");
    } else {
      streams.out.print(
          "loss           {:.4f}\nperplexity     {:.4f}\nbits per byte  {:.4f}\n"
          "tokens         {}\n",
          loss, perplexity, bits_per_byte, grouped(predicted));
    }
  }

  std::string folder_;
  std::vector<std::string> files_;
  Index window_ = 0, stride_ = 0;
  Index batch_ = 16;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_eval() { return std::make_unique<Eval>(); }

}  // namespace prenorm::cli
