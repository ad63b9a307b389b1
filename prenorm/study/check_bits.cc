#include "prenorm/study/check_bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/kernels/isa.h"
#include "prenorm/study/kernel_memory.h"

namespace prenorm {
namespace {

constexpr Index kLongest = 160;      // tokens: beyond two blocks of keys
constexpr double kMostWork = 4e9;    // parameters times tokens of a pass: about a tenth of a second
constexpr Index kSequences = 3;      // of a batch
constexpr Index kChangedTokens = 6;  // of the causality check
constexpr std::array kThreadCounts = {1, 2, 3};

Index length_of(const Gpt& model) {
  const double parameters = static_cast<double>(model.parameters().total_size());
  const auto affordable = static_cast<Index>(kMostWork / parameters);
  return std::min(model.config().block_size, std::clamp<Index>(affordable, 8, kLongest));
}

class Bits {
 public:
  explicit Bits(const CheckContext& context)
      : context_(context),
        time_(length_of(context.model)),
        vocabulary_(context.model.config().vocab_size),
        work_(context.model.make_workspace(kSequences, time_)),
        tokens_(random_tokens(kSequences * time_, vocabulary_, context.seed)) {}

  std::vector<Property> run() {
    context_.stage("logits");
    together_ = logits(context_.run, tokens_, kSequences);
    require_finite();
    std::vector<Property> found;
    if (time_ > 1 && vocabulary_ > 1) found.push_back(causality());
    found.push_back(batch());
    if (time_ > 1) found.push_back(cache());
    found.push_back(threads());
    return found;
  }

 private:
  FloatMatrix logits(const Runtime& run, const std::vector<TokenId>& tokens, Index sequences) {
    FloatMatrix out(sequences * time_, vocabulary_);
    context_.seams.logits(run, context_.model, work_, {tokens.data(), {sequences, time_}},
                          out.view());
    return out;
  }

  void require_finite() const {
    for (Index row = 0; row < together_.rows(); ++row) {
      const ConstVector values = together_.view()[row];
      for (Index v = 0; v < vocabulary_; ++v) {
        if (std::isfinite(values[v])) continue;
        throw NumericalError(
            fmt::format("check: logits: expected finite numbers, found {} for "
                        "token {} of a sequence",
                        values[v], row % time_));
      }
    }
  }

  static Property exact(std::string name, std::string claim, const BitDifference& difference,
                        std::string scope) {
    Property p;
    p.name = std::move(name);
    p.claim = std::move(claim);
    p.measure = "logits that differ";
    p.measured = static_cast<double>(difference.differing());
    p.scope = fmt::format("of {}; {}", difference.compared(), scope);
    p.vacuous = difference.compared() == 0;
    return p;
  }

  Property causality() {
    context_.stage("causality");
    const std::vector<TokenId> first(tokens_.begin(), tokens_.begin() + time_);
    BitDifference before, after;
    Index changed = 0;
    for (Index i = 1; i <= kChangedTokens; ++i) {
      const Index t = i * (time_ - 1) / kChangedTokens;
      if (t == 0) continue;  // a sequence of a few tokens
      std::vector<TokenId> other = first;
      TokenId& token = other[static_cast<std::size_t>(t)];
      token = static_cast<TokenId>((token + 1) % vocabulary_);
      const FloatMatrix moved = logits(context_.run, other, 1);
      const ConstMatrix here = together_.view().rows(0, time_), there = moved.view();
      before.compare(here.rows(0, t), there.rows(0, t));
      after.compare(here.rows(t, time_ - t), there.rows(t, time_ - t));
      ++changed;
    }
    Property p =
        exact("causality", "outputs before a token do not move when the token does", before,
              fmt::format("{} tokens changed, one at a time, of {}; at and after them {} "
                          "of {} moved",
                          changed, time_, after.differing(), after.compared()));
    p.vacuous = p.vacuous || after.differing() == 0;
    return p;
  }

  Property batch() {
    context_.stage("batch");
    BitDifference difference;
    for (Index b = 0; b < kSequences; ++b) {
      const std::vector<TokenId> one(tokens_.begin() + b * time_,
                                     tokens_.begin() + (b + 1) * time_);
      const FloatMatrix alone = logits(context_.run, one, 1);
      difference.compare(together_.view().rows(b * time_, time_), alone.view());
    }
    return exact("batch", "a sequence gives the same bits alone and in a batch", difference,
                 fmt::format("{} sequences of {}", kSequences, counted(time_, "token")));
  }

  // Half of the tokens at once, then one and two at a time.
  Property cache() {
    context_.stage("cache");
    Gpt::Cache cache = context_.model.make_cache(kSequences);
    FloatMatrix last(kSequences, vocabulary_);
    BitDifference difference;
    Index pieces = 0;
    for (Index done = 0, piece = time_ / 2; done < time_;
         done += piece, piece = std::min<Index>(1 + pieces % 2, time_ - done), ++pieces) {
      std::vector<TokenId> next;
      for (Index b = 0; b < kSequences; ++b) {
        const auto from = tokens_.begin() + b * time_ + done;
        next.insert(next.end(), from, from + piece);
      }
      context_.seams.decode(context_.run, context_.model, cache, {next.data(), {kSequences, piece}},
                            last.view());
      for (Index b = 0; b < kSequences; ++b) {
        const Index row = b * time_ + done + piece - 1;
        difference.compare(together_.view().rows(row, 1), std::as_const(last).view().rows(b, 1));
      }
    }
    return exact("cache", "decoding with the key/value cache gives the same bits as without",
                 difference, fmt::format("{} tokens in {} pieces", time_, pieces));
  }

  Property threads() {
    context_.stage("threads");
    BitDifference difference;
    for (const int count : kThreadCounts) {
      const Runtime other({.threads = count, .isa = isa_name(context_.run.isa())});
      const FloatMatrix there = logits(other, tokens_, kSequences);
      difference.compare(together_.view(), there.view());
    }
    return exact("threads", "any number of threads gives the same bits", difference,
                 "with 1, 2 and 3 threads");
  }

  const CheckContext& context_;
  Index time_, vocabulary_;
  Gpt::Workspace work_;
  std::vector<TokenId> tokens_;  // [kSequences, T]
  FloatMatrix together_;         // [kSequences · T, V]
};

}  // namespace

std::vector<Property> check_bits(const CheckContext& context) { return Bits(context).run(); }

}  // namespace prenorm
