#include "prenorm/study/diagnose_joint.h"

#include <algorithm>
#include <utility>

#include "prenorm/study/diagnose_elementwise.h"
#include "prenorm/study/diagnose_evaluation.h"
#include "prenorm/study/diagnose_pass.h"
#include "prenorm/study/diagnose_product.h"

namespace prenorm {
namespace {

using reference::BlockOptions;
using reference::GptOptions;
using reference::LayerNormParameters;
using reference::NormPlacement;
using reference::ResidualMistake;

bool is_post(const BlockOptions& o) { return o.norm == NormPlacement::kPost; }
bool is_missing(const BlockOptions& o) { return o.mistakes.residual == ResidualMistake::kMissing; }
bool is_from_norm(const BlockOptions& o) {
  return o.mistakes.residual == ResidualMistake::kFromNorm;
}

struct WideNorms {
  LayerNormParameters<double> first, second;
  const LayerNormParameters<double>& of(const BlockOptions& o, bool is_second) const {
    return is_second != o.mistakes.swapped_norm_weights ? second : first;
  }
};

}  // namespace

JointPass::JointPass(const Runtime& run, const Replay& replay, std::span<const GptOptions> options,
                     Arithmetic arithmetic)
    : run_(run), replay_(replay), options_(options), arithmetic_(arithmetic) {}

Values JointPass::rows_of(const Values& x, std::size_t member) const {
  return row_range(x, static_cast<Index>(member) * tokens(), tokens());
}

Values JointPass::each(Index columns, const std::function<Values(std::size_t)>& make) const {
  Values out({static_cast<Index>(options_.size()) * tokens(), columns});
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Values part = make(i);
    std::copy_n(part.row(0), part.size(), out.row(static_cast<Index>(i) * tokens()));
  }
  return out;
}

Values JointPass::norm(const Values& x, const LayerNormParameters<double>& p,
                       const reference::LayerNormOptions& options) const {
  return quick_norm(run_, x, p, options, false);
}

Values JointPass::linear(const Values& x, const reference::LinearParameters<float>& p,
                         const std::function<const Linear&(std::size_t)>& options) const {
  Values y = product(run_, x, p.weight, arithmetic_, false);
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Linear& o = options(i);
    const Index first = static_cast<Index>(i) * tokens();
    if (o.mistakes.transposed) {  // of square matrices
      const Values other =
          product(run_, rows_of(x, i), reference::transposed(p.weight), arithmetic_, false);
      std::copy_n(other.row(0), other.size(), y.row(first));
    }
    for (Index n = first; n < first + tokens(); ++n) {
      double* row = y.row(n);
      for (Index c = 0; !p.bias.absent() && !o.mistakes.no_bias && c < y.columns(); ++c) {
        row[c] += static_cast<double>(p.bias[c]);
      }
      for (Index c = 0; o.numbers != reference::Numbers::kExact && c < y.columns(); ++c) {
        row[c] = reference::round_to(row[c], o.numbers);
      }
    }
  }
  return y;
}

Values JointPass::attention(Index layer, const Values& x) const {
  const auto at = static_cast<std::size_t>(layer);
  const auto& p = replay_.model().parameters.h[at].attn;
  const Values qkv = linear(
      x, p.c_attn, [&](std::size_t i) -> const Linear& { return options_[i].h[at].attn.c_attn; });
  const Values heads = each(x.columns(), [&](std::size_t i) {
    return quick_attention(run_, rows_of(qkv, i), tokens(), options_[i].h[at].attn.core, false);
  });
  return linear(heads, p.c_proj,
                [&](std::size_t i) -> const Linear& { return options_[i].h[at].attn.c_proj; });
}

Values JointPass::feed_forward(Index layer, const Values& x) const {
  const auto at = static_cast<std::size_t>(layer);
  const auto& p = replay_.model().parameters.h[at].mlp;
  const Values wide =
      linear(x, p.c_fc, [&](std::size_t i) -> const Linear& { return options_[i].h[at].mlp.c_fc; });
  const Values active = each(wide.columns(), [&](std::size_t i) {
    return quick_activation(run_, rows_of(wide, i), options_[i].h[at].mlp.act, false);
  });
  return linear(active, p.c_proj,
                [&](std::size_t i) -> const Linear& { return options_[i].h[at].mlp.c_proj; });
}

Values JointPass::block(Index layer, const Values& x) const {
  const auto at = static_cast<std::size_t>(layer);
  const auto& p = replay_.model().parameters.h[at];
  const WideNorms norms{wide(p.ln_1), wide(p.ln_2)};
  const auto of = [&](std::size_t i) -> const BlockOptions& { return options_[i].h[at]; };
  // Into a branch: its norm, of a pre-norm block.
  const auto before = [&](const Values& stream, bool second) {
    return each(x.columns(), [&](std::size_t i) {
      const BlockOptions& o = of(i);
      if (is_post(o)) return rows_of(stream, i);
      return norm(rows_of(stream, i), norms.of(o, second), second ? o.ln_2 : o.ln_1);
    });
  };
  // Out of it: the residual sum, and the norm of a post-norm block.
  const auto after = [&](const Values& stream, const Values& normed, const Values& branch,
                         bool second) {
    return each(x.columns(), [&](std::size_t i) {
      const BlockOptions& o = of(i);
      Values out = rows_of(branch, i);
      if (!is_missing(o)) {
        const Values residual = rows_of(is_from_norm(o) && !is_post(o) ? normed : stream, i);
        out = reference::add(residual, out);
      }
      if (is_post(o)) return norm(out, norms.of(o, second), second ? o.ln_2 : o.ln_1);
      return is_missing(o) ? out : reference::rounded(std::move(out), o.numbers);
    });
  };
  const Values n_1 = before(x, false);
  const Values h = after(x, n_1, attention(layer, n_1), false);
  const Values n_2 = before(h, true);
  return after(h, n_2, feed_forward(layer, n_2), true);
}

Values JointPass::end(const Values& x) const {
  const auto& model = replay_.model();
  const LayerNormParameters<double> p = wide(model.parameters.ln_f);
  const Values normed = each(x.columns(), [&](std::size_t i) {
    Values out = rows_of(x, i);
    for (Index call = 0; call < options_[i].mistakes.final_norm_calls; ++call) {
      out = norm(out, p, options_[i].ln_f);
    }
    return out;
  });
  const auto through = [&](bool tied) {
    return product(run_, normed, replay_.head(tied), arithmetic_, false);
  };
  const auto is_tied = [&](bool tied) {
    return std::ranges::any_of(options_, [&](const GptOptions& o) { return o.tied == tied; });
  };
  const Values tied = is_tied(true) ? through(true) : Values();
  const Values untied = is_tied(false) ? through(false) : Values();
  return each((tied.absent() ? untied : tied).columns(), [&](std::size_t i) {
    return reference::rounded(rows_of(options_[i].tied ? tied : untied, i), options_[i].numbers);
  });
}

std::vector<Values> logits_of_each(const Runtime& run, const Replay& replay,
                                   std::span<const GptOptions> options, Arithmetic arithmetic) {
  constexpr Index kRows = 96;  // at a time: their activations stay in the processor's caches
  const Index tokens = replay.problem().time, count = static_cast<Index>(options.size());
  const Index at_once = std::max<Index>(1, kRows / tokens);
  std::vector<Values> out(options.size());
  on_threads(run, (count + at_once - 1) / at_once, [&](Index piece) {
    const Index first = piece * at_once, here = std::min(at_once, count - first);
    const auto part =
        options.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(here));
    Values x({here * tokens, replay.model().width()});
    for (Index i = 0; i < here; ++i) {
      const auto one = DiagnosePass(run, replay.model(), replay.problem(), replay.stages(),
                                    part[static_cast<std::size_t>(i)], nullptr, false, arithmetic)
                           .embed();
      std::copy_n(one->row(0), one->size(), x.row(i * tokens));
    }
    const JointPass pass(run, replay, part, arithmetic);
    for (Index layer = 0; layer < replay.stages().layers(); ++layer) x = pass.block(layer, x);
    x = pass.end(x);
    for (Index i = 0; i < here; ++i) {
      out[static_cast<std::size_t>(first + i)] = row_range(x, i * tokens, tokens);
    }
  });
  return out;
}

}  // namespace prenorm
