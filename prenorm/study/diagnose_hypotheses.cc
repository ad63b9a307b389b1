#include "prenorm/study/diagnose_hypotheses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace prenorm {
namespace {

using reference::Activation;
using reference::GptOptions;
using reference::Mistake;
using reference::MistakeValue;

// From these a fit starts; between them it finds any value.
constexpr std::array kEpsilons = {1e-12, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1};
constexpr std::array kMaskNumbers = {-1e4, -1e3, -100.0, -30.0, -10.0, -3.0, -1.0, 1.0};
constexpr std::array kPackings = {"qvk", "kqv", "kvq", "vqk", "vkq"};
constexpr std::array kModules = {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"};
constexpr const char* kTable = "table";  // its results are half floats, too, as ggml's
constexpr Index kMostShift = 3;

const reference::LinearParameters<float>& linear_parameters(
    const reference::BlockParameters<float>& block, std::string_view module) {
  if (module == "attn.c_attn") return block.attn.c_attn;
  if (module == "attn.c_proj") return block.attn.c_proj;
  if (module == "mlp.c_fc") return block.mlp.c_fc;
  return block.mlp.c_proj;
}

std::optional<Activation> activation_of(std::string_view mistake) {
  if (mistake == "activation.relu") return Activation::kRelu;
  if (mistake == "activation.gelu-erf") return Activation::kGelu;
  if (mistake == "activation.gelu-tanh") return Activation::kGeluTanh;
  if (mistake == "activation.gelu-quick") return Activation::kGeluQuick;
  return std::nullopt;
}

// A table row with each value that is tried, at one place.
class Choices {
 public:
  Choices(const DiagnoseModel& model, std::string where)
      : model_(model), where_(std::move(where)) {}

  void add(const Mistake& mistake, std::span<const reference::BlockParameters<float>> blocks) {
    const std::string_view name = mistake.name;
    if (activation_of(name) == model_.settings.activation) return;
    if (name == "norm.eps-value") return numbers(mistake, kEpsilons, model_.settings.eps);
    if (name == "attention.mask-finite") return numbers(mistake, kMaskNumbers, NAN);
    if (name == "attention.mask-shifted") return shifts(mistake, kMostShift);
    if (mistake.value == MistakeValue::kPacking) {
      for (const char* packing : kPackings) push({.name = std::string(name), .text = packing});
    } else if (mistake.value == MistakeValue::kModule) {
      for (const char* module : kModules) {
        const bool any = std::ranges::any_of(blocks, [&](const auto& block) {
          return matters(name, linear_parameters(block, module));
        });
        if (any) push({.name = std::string(name), .text = module});
      }
    } else {
      push({.name = std::string(name)});
      if (name == "numbers.f16-gelu") push({.name = std::string(name), .text = kTable});
    }
  }

  void shifts(const Mistake& mistake, Index most) {
    for (Index n = 1; n <= most; ++n) {
      push({.name = std::string(mistake.name), .number = static_cast<double>(n)});
    }
  }

  void push(MistakeChoice choice) {
    choice.where = where_;
    list_.push_back(std::move(choice));
  }
  Mistakes take() { return std::move(list_); }

 private:
  static bool matters(std::string_view name, const reference::LinearParameters<float>& p) {
    if (name == "weights.transposed") return p.weight.rows() == p.weight.columns();
    return std::ranges::any_of(p.bias, [](float x) { return x != 0.0f; });
  }

  void numbers(const Mistake& mistake, std::span<const double> values, double right) {
    for (const double value : values) {
      if (value != right) push({.name = std::string(mistake.name), .number = value});
    }
  }

  const DiagnoseModel& model_;
  std::string where_;
  Mistakes list_;
};

bool whole_run(const Mistake& mistake) {
  return mistake.name == "numbers.bf16" || mistake.name == "numbers.f16";
}

std::span<const Mistake> table() { return reference::mistakes(); }

}  // namespace

Mistakes choices_everywhere(const DiagnoseModel& model, Index time) {
  Choices choices(model, "");
  for (const Mistake& mistake : table()) {
    if (whole_run(mistake)) continue;
    if (mistake.in_model == nullptr) {
      choices.add(mistake, model.parameters.h);
    } else if (mistake.name == "position.offset") {
      const Index room = model.has_embedding ? model.parameters.embedding.wpe.rows() - time : 0;
      choices.shifts(mistake, std::min(kMostShift, room));
    }
  }
  Mistakes all = choices.take();
  for (MistakeChoice& choice : choices_of_end(model)) {
    if (choice.where.empty()) all.push_back(std::move(choice));
  }
  return all;
}

Mistakes choices_of_block(const DiagnoseModel& model, Index layer) {
  const std::string where = "transformer.h." + std::to_string(layer);
  Choices of_block(model, where), of_ln_1(model, where + ".ln_1"), of_ln_2(model, where + ".ln_2");
  const std::span blocks(model.parameters.h);
  for (const Mistake& mistake : table()) {
    if (whole_run(mistake) || mistake.in_model != nullptr) continue;
    of_block.add(mistake, blocks.subspan(static_cast<std::size_t>(layer), 1));
    if (mistake.in_norm == nullptr) continue;
    of_ln_1.add(mistake, {});
    of_ln_2.add(mistake, {});
  }
  Mistakes all = of_block.take();
  for (Choices* more : {&of_ln_1, &of_ln_2})
    std::ranges::move(more->take(), std::back_inserter(all));
  return all;
}

Mistakes choices_of_end(const DiagnoseModel& model) {
  Mistakes all;
  if (model.has_final_norm) {
    Choices of_norm(model, "transformer.ln_f");
    for (const Mistake& mistake : table()) {
      if (mistake.in_norm != nullptr) of_norm.add(mistake, {});
    }
    all = of_norm.take();
    all.push_back({.name = "structure.no-final-norm"});
    all.push_back({.name = "structure.double-final-norm"});
  }
  if (model.has_head && !model.settings.tied) all.push_back({.name = "weights.tied-head"});
  return all;
}

GptOptions with_mistakes(GptOptions options, const Mistakes& mistakes) {
  for (const MistakeChoice& choice : mistakes) {
    reference::make_mistake(options, choice);
    if (choice.text != kTable) continue;
    for (std::size_t l = 0; l < options.h.size(); ++l) {
      const bool here =
          choice.where.empty() || choice.where == "transformer.h." + std::to_string(l);
      if (here) options.h[l].mlp.act.numbers = reference::Numbers::kFloat16;
    }
  }
  return options;
}

std::vector<double> fingerprint(const GptOptions& o) {
  std::vector<double> out;
  const auto put = [&](auto... values) { (out.push_back(static_cast<double>(values)), ...); };
  const auto put_norm = [&](const reference::LayerNormOptions& n) {
    const auto& m = n.mistakes;
    put(n.eps, m.eps_place, m.ddof, m.over_time, m.no_weight, m.no_bias, m.rms, n.numbers);
  };
  for (const reference::BlockOptions& b : o.h) {
    put_norm(b.ln_1);
    put_norm(b.ln_2);
    const auto& a = b.attn.core;
    const auto& m = a.mistakes;
    put(m.mask, m.mask_value, m.mask_shift, m.scale, m.qkv_order.find('q'), m.qkv_order.find('k'),
        m.split, m.no_merge_transpose, m.softmax_over_queries, a.numbers, a.cache_numbers);
    for (const auto* l : {&b.attn.c_attn, &b.attn.c_proj, &b.mlp.c_fc, &b.mlp.c_proj}) {
      put(l->mistakes.transposed, l->mistakes.no_bias, l->numbers);
    }
    put(b.mlp.act.kind, b.mlp.act.input_numbers, b.mlp.act.numbers);
    put(b.norm, b.mistakes.residual, b.mistakes.swapped_norm_weights, b.numbers);
  }
  put_norm(o.ln_f);
  put(o.tied, o.numbers, o.parameter_numbers, o.mistakes.final_norm_calls,
      o.mistakes.position_offset);
  return out;
}

bool compatible(const GptOptions& right, const MistakeChoice& a, const MistakeChoice& b) {
  const auto both = fingerprint(with_mistakes(right, {a, b}));
  return both == fingerprint(with_mistakes(right, {b, a})) &&
         both != fingerprint(with_mistakes(right, {a})) &&
         both != fingerprint(with_mistakes(right, {b}));
}

std::span<const double> mask_numbers() { return kMaskNumbers; }

bool has_continuous_value(const MistakeChoice& choice) {
  return choice.name == "norm.eps-value" || choice.name == "attention.mask-finite";
}

bool same_kind(const MistakeChoice& a, const MistakeChoice& b) { return a.name == b.name; }

}  // namespace prenorm
