#include "prenorm/study/diagnose_pass.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "prenorm/study/diagnose_elementwise.h"
#include "prenorm/study/diagnose_product.h"

namespace prenorm {
namespace {

using reference::LayerNormOptions;
using reference::Numbers;
using reference::ResidualMistake;

// --- Options as numbers, to tell whether a stage is the same as before --------------------------

double number_of(Numbers numbers) { return static_cast<double>(numbers); }

StageKey key_of(const LayerNormOptions& o) {
  const auto& m = o.mistakes;
  return {
      o.eps, static_cast<double>(m.eps_place),
      static_cast<double>(m.ddof + 2 * m.over_time + 4 * m.no_weight + 8 * m.no_bias + 16 * m.rms),
      number_of(o.numbers)};
}

StageKey key_of(const reference::LinearOptions& o) {
  return {static_cast<double>(o.mistakes.transposed + 2 * o.mistakes.no_bias),
          number_of(o.numbers)};
}

StageKey key_of(const reference::AttentionOptions& o) {
  const auto& m = o.mistakes;
  return {static_cast<double>(m.mask),
          m.mask_value,
          static_cast<double>(m.mask_shift),
          static_cast<double>(m.scale),
          static_cast<double>(m.qkv_order.find('q') + 3 * m.qkv_order.find('k')),
          static_cast<double>(m.split),
          static_cast<double>(m.no_merge_transpose + 2 * m.softmax_over_queries),
          number_of(o.numbers),
          number_of(o.cache_numbers)};
}

StageKey key_of(const reference::ActivationOptions& o) {
  return {static_cast<double>(o.kind), number_of(o.input_numbers), number_of(o.numbers)};
}

// --- Arithmetic ---------------------------------------------------------------------------------

double narrow(double x) { return static_cast<double>(static_cast<float>(x)); }

// A row's norm as float32 code computes it: the statistics, the centred row and each product are
// rounded. Only of a norm without a mistake in what it is taken over.
Values norm_in_float(const Values& x, const reference::LayerNormParameters<double>& p,
                     const LayerNormOptions& options) {
  const bool plain = !options.mistakes.over_time &&
                     options.mistakes.eps_place == reference::EpsilonPlace::kInsideRoot;
  if (!plain) {
    LayerNormOptions rounding = options;
    if (rounding.numbers == Numbers::kExact) rounding.numbers = Numbers::kFloat32;
    return reference::layer_norm(x, p, rounding);
  }
  Values y(x.shape());
  const double width = static_cast<double>(x.columns());
  for (Index n = 0; n < x.rows(); ++n) {
    double mean = 0.0, variance = 0.0;
    for (Index c = 0; c < x.columns(); ++c) mean += x(n, c) / width;
    mean = options.mistakes.rms ? 0.0 : narrow(mean);
    for (Index c = 0; c < x.columns(); ++c) {
      const double centred = narrow(x(n, c) - mean);
      variance += narrow(centred * centred) / width;
    }
    if (options.mistakes.ddof) variance *= width / (width - 1.0);
    const double scale = narrow(1.0 / std::sqrt(narrow(narrow(variance) + options.eps)));
    for (Index c = 0; c < x.columns(); ++c) {
      double out = narrow(narrow(x(n, c) - mean) * scale);
      if (!p.weight.absent() && !options.mistakes.no_weight) out = narrow(out * p.weight[c]);
      if (!p.bias.absent() && !options.mistakes.no_bias) out = narrow(out + p.bias[c]);
      y(n, c) = out;
    }
  }
  return reference::rounded(std::move(y), options.numbers);
}

// Whether what it makes of a token may depend on later ones.
bool sees_later(const reference::AttentionOptions& options) {
  const auto& m = options.mistakes;
  return m.mask != reference::MaskMistake::kNone || m.softmax_over_queries ||
         m.no_merge_transpose || m.split == reference::HeadSplit::kNoTranspose;
}

// Whether other options made the same of the same inputs, but for the last bits of double: as a
// mask of −1e4 does. What comes after it is the same then, too.
bool changes_nothing(const TracedStage& before, const TracedStage& now) {
  constexpr double kLastBits = 1e-13;
  if (before.computed == nullptr || before.inputs != now.inputs ||
      before.computed->shape() != now.computed->shape()) {
    return false;
  }
  return mean_square_difference(*before.computed, *now.computed) <=
         kLastBits * kLastBits * mean_square(*before.computed);
}

}  // namespace

DiagnosePass::DiagnosePass(const Runtime& run, const DiagnoseModel& model,
                           const DiagnoseProblem& problem, const StageList& stages,
                           const reference::GptOptions& options, const Trace* base, bool spread,
                           Arithmetic arithmetic, Keep keep)
    : run_(run),
      model_(model),
      problem_(problem),
      stages_(stages),
      options_(options),
      base_(base),
      spread_(spread),
      arithmetic_(arithmetic),
      keep_(keep),
      trace_(stages.count()) {}

void DiagnosePass::set_heads(const Floats& tied, const Floats& untied) {
  tied_head_ = &tied;
  untied_head_ = &untied;
}

DiagnosePass::Shared DiagnosePass::stage(Index slot, std::vector<Shared> inputs, StageKey key,
                                         const Compute& compute) {
  TracedStage& out = trace_.at(slot);
  for (const Shared& input : inputs) out.inputs.push_back(input.get());
  out.key = std::move(key);
  if (base_ != nullptr) {
    const TracedStage& before = base_->at(slot);
    if (before.computed != nullptr && before.inputs == out.inputs && before.key == out.key) {
      out = before;
      return out.used;
    }
  }
  out.computed = std::make_shared<const Values>(compute());
  if (base_ != nullptr && changes_nothing(base_->at(slot), out)) {
    out = base_->at(slot);
    return out.used;
  }
  out.used = out.computed;
  const auto theirs = problem_.theirs.find(slot);
  if (theirs != problem_.theirs.end()) {
    out.used = theirs->second;
    out.residual = mean_square_difference(*out.used, *out.computed);
  } else if (keep_ == Keep::kCompared && slot < stages_.of(stages_.layers() - 1, Stage::kBlock)) {
    out.computed.reset();
    return std::exchange(out.used, nullptr);
  }
  return out.used;
}

Values DiagnosePass::times(const Values& x, const Floats& w) const {
  return product(run_, x, w, arithmetic_, spread_);
}

DiagnosePass::Shared DiagnosePass::embed() {
  const Index offset = options_.mistakes.position_offset;
  const StageKey key{static_cast<double>(offset), number_of(options_.numbers)};
  return stage(stages_.embedding(), {}, key, [&] {
    if (problem_.tokens.empty()) return reference::rounded(problem_.embedded, options_.numbers);
    const auto& p = model_.parameters.embedding;
    Values x({problem_.rows(), p.wte.columns()});
    for (Index n = 0; n < x.rows(); ++n) {
      const float* token = p.wte.row(problem_.tokens[static_cast<std::size_t>(n)]);
      const float* position = p.wpe.row((n % problem_.time + offset) % p.wpe.rows());
      for (Index c = 0; c < x.columns(); ++c) {
        x(n, c) = static_cast<double>(token[c]) + static_cast<double>(position[c]);
      }
    }
    return reference::rounded(std::move(x), options_.numbers);
  });
}

// Of [B·T, C]; the norm over the time needs the sequences.
Values DiagnosePass::normalised(const Values& x,
                                const reference::LayerNormParameters<float>& parameters,
                                const LayerNormOptions& options, Index calls) const {
  const auto p = wide(parameters);
  if (arithmetic_ != Arithmetic::kFloat && !options.mistakes.over_time) {
    Values y = quick_norm(run_, x, p, options, spread_);
    for (Index call = 1; call < calls; ++call) y = quick_norm(run_, y, p, options, spread_);
    return y;
  }
  Values y = x.reshaped({problem_.batch, problem_.time, x.columns()});
  for (Index call = 0; call < calls; ++call) {
    y = arithmetic_ == Arithmetic::kFloat ? norm_in_float(y, p, options)
                                          : reference::layer_norm(y, p, options);
  }
  const std::vector<Index> rows{y.rows(), y.columns()};
  return std::move(y).reshaped(rows);
}

// LN(x), or LN(x + y) after a residual sum that is no stage of its own.
DiagnosePass::Shared DiagnosePass::norm(Index slot, std::vector<Shared> inputs, bool second,
                                        const LayerNormOptions& options, const StageKey& sum_key) {
  StageKey key = key_of(options);
  key.insert(key.end(), sum_key.begin(), sum_key.end());
  key.push_back(second);
  return stage(slot, inputs, key, [&] {
    const auto& block = model_.parameters.h[static_cast<std::size_t>(*stages_.layer(slot))];
    const auto& p = second ? block.ln_2 : block.ln_1;
    if (inputs.size() == 1) return normalised(*inputs.front(), p, options, 1);
    return normalised(reference::add(*inputs.front(), *inputs[1]), p, options, 1);
  });
}

DiagnosePass::Shared DiagnosePass::linear(Index slot, const Shared& x,
                                          const reference::LinearParameters<float>& p,
                                          const reference::LinearOptions& options) {
  return stage(slot, {x}, key_of(options), [&] {
    Values y = options.mistakes.transposed ? times(*x, reference::transposed(p.weight))
                                           : times(*x, p.weight);
    if (!p.bias.absent() && !options.mistakes.no_bias) {
      for (Index n = 0; n < y.rows(); ++n) {
        for (Index o = 0; o < y.columns(); ++o) y(n, o) += static_cast<double>(p.bias[o]);
      }
    }
    return reference::rounded(std::move(y), options.numbers);
  });
}

DiagnosePass::Shared DiagnosePass::attend(Index layer, const Shared& qkv) {
  const auto& options = options_.h[static_cast<std::size_t>(layer)].attn.core;
  return stage(stages_.of(layer, Stage::kAttended), {qkv}, key_of(options), [&] {
    const Index slot = stages_.of(layer, Stage::kCAttn);
    if (whole_ != nullptr && sees_later(options) && qkv == base_->at(slot).used) {
      return quick_attention_start(run_, *whole_->at(slot).used, options, qkv->rows());
    }
    return quick_attention(run_, *qkv, problem_.time, options, spread_);
  });
}

DiagnosePass::Shared DiagnosePass::activate(Index layer, const Shared& x) {
  const auto& options = options_.h[static_cast<std::size_t>(layer)].mlp.act;
  return stage(stages_.of(layer, Stage::kAct), {x}, key_of(options),
               [&] { return quick_activation(run_, *x, options, spread_); });
}

DiagnosePass::Shared DiagnosePass::sum(Index slot, const Shared& x, const Shared& y, bool missing,
                                       Numbers numbers) {
  return stage(slot, {x, y}, {static_cast<double>(missing), number_of(numbers)},
               [&] { return missing ? *y : reference::rounded(reference::add(*x, *y), numbers); });
}

DiagnosePass::Shared DiagnosePass::attention_branch(Index layer, const Shared& x) {
  const auto& p = model_.parameters.h[static_cast<std::size_t>(layer)].attn;
  const auto& options = options_.h[static_cast<std::size_t>(layer)].attn;
  const Shared qkv = linear(stages_.of(layer, Stage::kCAttn), x, p.c_attn, options.c_attn);
  return linear(stages_.of(layer, Stage::kAttnProj), attend(layer, qkv), p.c_proj, options.c_proj);
}

DiagnosePass::Shared DiagnosePass::feed_forward_branch(Index layer, const Shared& x) {
  const auto& p = model_.parameters.h[static_cast<std::size_t>(layer)].mlp;
  const auto& options = options_.h[static_cast<std::size_t>(layer)].mlp;
  const Shared wide_x = linear(stages_.of(layer, Stage::kFc), x, p.c_fc, options.c_fc);
  return linear(stages_.of(layer, Stage::kMlpProj), activate(layer, wide_x), p.c_proj,
                options.c_proj);
}

DiagnosePass::Shared DiagnosePass::pre_norm_block(Index layer, const Shared& x) {
  const auto& o = options_.h[static_cast<std::size_t>(layer)];
  const bool swapped = o.mistakes.swapped_norm_weights;
  const bool missing = o.mistakes.residual == ResidualMistake::kMissing;
  const bool from_norm = o.mistakes.residual == ResidualMistake::kFromNorm;
  const auto slot = [&](Stage s) { return stages_.of(layer, s); };
  const Shared n_1 = norm(slot(Stage::kLn1), {x}, swapped, o.ln_1, {});
  const Shared a = attention_branch(layer, n_1);
  const Shared h = sum(slot(Stage::kMiddle), from_norm ? n_1 : x, a, missing, o.numbers);
  const Shared n_2 = norm(slot(Stage::kLn2), {h}, !swapped, o.ln_2, {});
  const Shared m = feed_forward_branch(layer, n_2);
  return sum(slot(Stage::kBlock), from_norm ? n_2 : h, m, missing, o.numbers);
}

DiagnosePass::Shared DiagnosePass::post_norm_block(Index layer, const Shared& x) {
  const auto& o = options_.h[static_cast<std::size_t>(layer)];
  const bool swapped = o.mistakes.swapped_norm_weights;
  const bool missing = o.mistakes.residual == ResidualMistake::kMissing;
  const auto slot = [&](Stage s) { return stages_.of(layer, s); };
  const auto summands = [&](const Shared& residual, const Shared& branch) {
    return missing ? std::vector<Shared>{branch} : std::vector<Shared>{residual, branch};
  };
  // What a norm returns is what goes on: the stages of the residual stream are copies of it.
  const auto copy = [&](Index to, const Shared& from) {
    return stage(to, {from}, {-1.0}, [&] { return *from; });
  };
  const Shared a = attention_branch(layer, x);
  const Shared h =
      copy(slot(Stage::kMiddle), norm(slot(Stage::kLn1), summands(x, a), swapped, o.ln_1, {1.0}));
  const Shared m = feed_forward_branch(layer, h);
  return copy(slot(Stage::kBlock),
              norm(slot(Stage::kLn2), summands(h, m), !swapped, o.ln_2, {1.0}));
}

DiagnosePass::Shared DiagnosePass::block(Index layer, const Shared& x) {
  return options_.h[static_cast<std::size_t>(layer)].norm == reference::NormPlacement::kPost
             ? post_norm_block(layer, x)
             : pre_norm_block(layer, x);
}

void DiagnosePass::logits(const Shared& x) {
  const StageKey key{static_cast<double>(options_.tied), number_of(options_.numbers)};
  stage(stages_.logits(), {x}, key, [&] {
    const Floats& head = options_.tied ? *tied_head_ : *untied_head_;
    return reference::rounded(times(*x, head), options_.numbers);
  });
}

void DiagnosePass::end(Shared x) {
  // The dump has the last call's result: an earlier one's is not known.
  const Index calls = options_.mistakes.final_norm_calls;
  if (calls > 0) {
    StageKey key{static_cast<double>(calls)};
    const StageKey of_norm = key_of(options_.ln_f);
    key.insert(key.end(), of_norm.begin(), of_norm.end());
    x = stage(stages_.final_norm(), {x}, key,
              [&] { return normalised(*x, model_.parameters.ln_f, options_.ln_f, calls); });
  }
  if (model_.has_head && problem_.has(stages_.logits())) logits(x);
}

Trace DiagnosePass::run() {
  Shared x = embed();
  for (Index l = 0; l < stages_.layers(); ++l) x = block(l, x);
  end(x);
  return std::move(trace_);
}

}  // namespace prenorm
