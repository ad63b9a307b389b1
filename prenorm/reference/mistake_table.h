// Every classic mistake by name, and how to make it in a textbook model.
//
//   GptOptions options = gpt_options(settings);
//   make_mistake(options, {.name = "norm.eps-outside-root"});   // in every norm
//   make_mistake(options, {.name = "norm.ddof", .where = "transformer.h.2.ln_1"});
//   make_mistake(options, {.name = "weights.no-bias", .text = "mlp.c_fc"});
#pragma once
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "prenorm/reference/gpt.h"

namespace prenorm::reference {

// One mistake in one place.
struct MistakeChoice {
  std::string name;        // of the table
  std::string where = {};  // "" is everywhere; or a module: transformer.h.2, also with .ln_1 or
                           // .ln_2 for one norm; transformer.ln_f
  std::optional<double> number = {};  // ε, the mask's number, how far mask or position is shifted
  std::string text = {};              // the packing, as kqv; the module, as attn.c_proj

  friend bool operator==(const MistakeChoice&, const MistakeChoice&) = default;
};

// What must be given beside the name.
enum class MistakeValue { kNone, kNumber, kPacking, kModule };

// A mistake and the options that make it, where it may be made: in a norm, a block, a whole model.
struct Mistake {
  std::string_view name;
  std::string_view says;  // what the mistaken code computes
  MistakeValue value = MistakeValue::kNone;
  void (*in_norm)(LayerNormOptions&, const MistakeChoice&) = nullptr;
  void (*in_block)(BlockOptions&, const MistakeChoice&) = nullptr;
  void (*in_model)(GptOptions&, const MistakeChoice&) = nullptr;
};

// A block whose every operation rounds its result.
inline void compute_in(BlockOptions& block, Numbers numbers) {
  block.numbers = block.ln_1.numbers = block.ln_2.numbers = numbers;
  block.attn.core.numbers = block.mlp.act.numbers = numbers;
  block.attn.c_attn.numbers = block.attn.c_proj.numbers = numbers;
  block.mlp.c_fc.numbers = block.mlp.c_proj.numbers = numbers;
}

// A whole model in small numbers: parameters, and the result of every operation.
inline void compute_in(GptOptions& options, Numbers numbers) {
  options.numbers = options.parameter_numbers = options.ln_f.numbers = numbers;
  for (BlockOptions& block : options.h) compute_in(block, numbers);
}

// One of the four linear modules of a block, by Hugging Face's name. Throws ConfigError.
inline LinearOptions& linear_module(BlockOptions& block, std::string_view module) {
  if (module == "attn.c_attn") return block.attn.c_attn;
  if (module == "attn.c_proj") return block.attn.c_proj;
  if (module == "mlp.c_fc") return block.mlp.c_fc;
  if (module == "mlp.c_proj") return block.mlp.c_proj;
  throw ConfigError(
      "mistake: module: expected attn.c_attn, attn.c_proj, mlp.c_fc or mlp.c_proj, found '" +
      std::string(module) + "'");
}

inline void set_blocked_scores(AttentionMistakes& mistakes, double value) {
  mistakes.mask = MaskMistake::kSetToValue;
  mistakes.mask_value = value;
}

inline Index whole(const MistakeChoice& choice) {
  return static_cast<Index>(choice.number.value_or(1.0));
}

// All mistakes.
inline std::span<const Mistake> mistakes() {
  static constexpr Mistake kMistakes[] = {
      {.name = "norm.eps-value",
       .says = "another ε",
       .value = MistakeValue::kNumber,
       .in_norm = [](auto& norm, auto& choice) { norm.eps = choice.number.value_or(norm.eps); }},
      {.name = "norm.eps-outside-root",
       .says = "(x − m)/(√v + ε)",
       .in_norm = [](auto& norm, auto&) { norm.mistakes.eps_place = EpsilonPlace::kOutsideRoot; }},
      {.name = "norm.eps-misplaced",
       .says = "(x − m)/√v + ε",
       .in_norm = [](auto& norm, auto&) { norm.mistakes.eps_place = EpsilonPlace::kAddedAfter; }},
      {.name = "norm.ddof",
       .says = "variance divided by C − 1",
       .in_norm = [](auto& norm, auto&) { norm.mistakes.ddof = true; }},
      {.name = "norm.axis",
       .says = "mean and variance over the time, for each channel",
       .in_norm = [](auto& norm, auto&) { norm.mistakes.over_time = true; }},
      {.name = "norm.no-affine",
       .says = "neither γ nor β",
       .in_norm = [](auto& norm,
                     auto&) { norm.mistakes.no_weight = norm.mistakes.no_bias = true; }},
      {.name = "norm.no-bias",
       .says = "no β",
       .in_norm = [](auto& norm, auto&) { norm.mistakes.no_bias = true; }},
      {.name = "norm.rms",
       .says = "x/√(mean(x²) + ε): the mean is not subtracted",
       .in_norm = [](auto& norm, auto&) { norm.mistakes.rms = true; }},
      {.name = "norm.swapped-weights",
       .says = "γ, β of ln_1 used in ln_2 and the reverse",
       .in_block = [](auto& block, auto&) { block.mistakes.swapped_norm_weights = true; }},
      {.name = "structure.post-norm",
       .says = "x = LN1(x + attn(x)), x = LN2(x + mlp(x))",
       .in_block = [](auto& block, auto&) { block.norm = NormPlacement::kPost; }},
      {.name = "structure.residual-from-norm",
       .says = "y = LN(x), x = y + f(y)",
       .in_block = [](auto& block,
                      auto&) { block.mistakes.residual = ResidualMistake::kFromNorm; }},
      {.name = "structure.no-residual",
       .says = "x = f(LN(x))",
       .in_block = [](auto& block, auto&) { block.mistakes.residual = ResidualMistake::kMissing; }},
      {.name = "structure.no-final-norm",
       .says = "ln_f left out",
       .in_model = [](auto& gpt, auto&) { gpt.mistakes.final_norm_calls = 0; }},
      {.name = "structure.double-final-norm",
       .says = "ln_f applied twice",
       .in_model = [](auto& gpt, auto&) { gpt.mistakes.final_norm_calls = 2; }},
      {.name = "attention.no-mask",
       .says = "every token sees every token",
       .in_block = [](auto& block, auto&) { block.attn.core.mistakes.mask = MaskMistake::kOff; }},
      {.name = "attention.mask-zero",
       .says = "blocked scores set to 0 before the softmax",
       .in_block = [](auto& block, auto&) { set_blocked_scores(block.attn.core.mistakes, 0.0); }},
      {.name = "attention.mask-finite",
       .says = "blocked scores set to a finite number",
       .value = MistakeValue::kNumber,
       .in_block =
           [](auto& block, auto& choice) {
             set_blocked_scores(block.attn.core.mistakes, choice.number.value_or(-1e4));
           }},
      {.name = "attention.mask-shifted",
       .says = "future tokens are visible",
       .value = MistakeValue::kNumber,
       .in_block =
           [](auto& block, auto& choice) {
             block.attn.core.mistakes.mask = MaskMistake::kShifted;
             block.attn.core.mistakes.mask_shift = whole(choice);
           }},
      {.name = "attention.mask-inverted",
       .says = "a token sees itself and the future",
       .in_block = [](auto& block,
                      auto&) { block.attn.core.mistakes.mask = MaskMistake::kInverted; }},
      {.name = "attention.no-scale",
       .says = "scores not scaled",
       .in_block = [](auto& block,
                      auto&) { block.attn.core.mistakes.scale = ScaleMistake::kUnscaled; }},
      {.name = "attention.scale-by-width",
       .says = "scores scaled by 1/√C",
       .in_block = [](auto& block,
                      auto&) { block.attn.core.mistakes.scale = ScaleMistake::kByWidth; }},
      {.name = "attention.qkv-order",
       .says = "q, k, v packed in another order",
       .value = MistakeValue::kPacking,
       .in_block = [](auto& block,
                      auto& choice) { block.attn.core.mistakes.qkv_order = choice.text; }},
      {.name = "attention.qkv-interleaved",
       .says = "q, k, v packed as [H, 3, D]",
       .in_block = [](auto& block,
                      auto&) { block.attn.core.mistakes.split = HeadSplit::kInterleaved; }},
      {.name = "attention.head-axes",
       .says = "q, k, v viewed as [B, T, D, H]",
       .in_block = [](auto& block,
                      auto&) { block.attn.core.mistakes.split = HeadSplit::kHeadAxes; }},
      {.name = "attention.no-split-transpose",
       .says = "q, k, v viewed as [B, H, T, D]",
       .in_block = [](auto& block,
                      auto&) { block.attn.core.mistakes.split = HeadSplit::kNoTranspose; }},
      {.name = "attention.no-merge-transpose",
       .says = "[B, H, T, D] reshaped to [B, T, C]",
       .in_block = [](auto& block, auto&) { block.attn.core.mistakes.no_merge_transpose = true; }},
      {.name = "attention.softmax-axis",
       .says = "softmax over the queries",
       .in_block = [](auto& block,
                      auto&) { block.attn.core.mistakes.softmax_over_queries = true; }},
      {.name = "position.offset",
       .says = "wpe[t + n]",
       .value = MistakeValue::kNumber,
       .in_model = [](auto& gpt, auto& choice) { gpt.mistakes.position_offset = whole(choice); }},
      {.name = "activation.relu",
       .says = "ReLU",
       .in_block = [](auto& block, auto&) { block.mlp.act.kind = Activation::kRelu; }},
      {.name = "activation.gelu-erf",
       .says = "GELU, exact",
       .in_block = [](auto& block, auto&) { block.mlp.act.kind = Activation::kGelu; }},
      {.name = "activation.gelu-tanh",
       .says = "GELU, tanh form",
       .in_block = [](auto& block, auto&) { block.mlp.act.kind = Activation::kGeluTanh; }},
      {.name = "activation.gelu-quick",
       .says = "x sigmoid(1.702 x)",
       .in_block = [](auto& block, auto&) { block.mlp.act.kind = Activation::kGeluQuick; }},
      {.name = "weights.transposed",
       .says = "a square matrix used transposed",
       .value = MistakeValue::kModule,
       .in_block =
           [](auto& block, auto& choice) {
             linear_module(block, choice.text).mistakes.transposed = true;
           }},
      {.name = "weights.no-bias",
       .says = "the bias of a linear module left out",
       .value = MistakeValue::kModule,
       .in_block = [](auto& block,
                      auto& choice) { linear_module(block, choice.text).mistakes.no_bias = true; }},
      {.name = "weights.untied-head",
       .says = "lm_head where wte is the head",
       .in_model = [](auto& gpt, auto&) { gpt.tied = false; }},
      {.name = "weights.tied-head",
       .says = "wte where lm_head is the head",
       .in_model = [](auto& gpt, auto&) { gpt.tied = true; }},
      {.name = "numbers.bf16",
       .says = "the whole run in bfloat16",
       .in_block = [](auto& block, auto&) { compute_in(block, Numbers::kBfloat16); },
       .in_model = [](auto& gpt, auto&) { compute_in(gpt, Numbers::kBfloat16); }},
      {.name = "numbers.f16",
       .says = "the whole run in half floats",
       .in_block = [](auto& block, auto&) { compute_in(block, Numbers::kFloat16); },
       .in_model = [](auto& gpt, auto&) { compute_in(gpt, Numbers::kFloat16); }},
      {.name = "numbers.f16-cache",
       .says = "keys and values rounded to half floats",
       .in_block = [](auto& block, auto&) { block.attn.core.cache_numbers = Numbers::kFloat16; }},
      {.name = "numbers.f16-gelu",
       .says = "the activation's input rounded to half floats",
       .in_block = [](auto& block, auto&) { block.mlp.act.input_numbers = Numbers::kFloat16; }},
  };
  return kMistakes;
}

// Throws ConfigError for a name that is not in the table.
inline const Mistake& find_mistake(std::string_view name) {
  for (const Mistake& mistake : mistakes()) {
    if (mistake.name == name) return mistake;
  }
  throw ConfigError("mistake: expected a name of the table, found '" + std::string(name) + "'");
}

// A mistake in one block; `norm` is "ln_1" or "ln_2" for one norm of it, else it is in both. Throws
// ConfigError for a mistake that is none of a block.
inline void make_mistake(BlockOptions& block, const MistakeChoice& choice,
                         std::string_view norm = "") {
  const Mistake& mistake = find_mistake(choice.name);
  if (mistake.in_norm != nullptr) {
    if (norm != "ln_2") mistake.in_norm(block.ln_1, choice);
    if (norm != "ln_1") mistake.in_norm(block.ln_2, choice);
  } else if (mistake.in_block != nullptr && norm.empty()) {
    mistake.in_block(block, choice);
  } else {
    throw ConfigError("mistake: expected one that is made in a " +
                      std::string(norm.empty() ? "block" : "norm") + ", found '" + choice.name +
                      "'");
  }
}

// A mistake of a model at choice.where; everywhere includes the final norm. Several may be made,
// one after another. Throws ConfigError for an unknown name, module or place.
inline void make_mistake(GptOptions& options, const MistakeChoice& choice) {
  const Mistake& mistake = find_mistake(choice.name);
  if (choice.where.empty()) {
    if (mistake.in_model != nullptr) return mistake.in_model(options, choice);
    if (mistake.in_norm != nullptr) mistake.in_norm(options.ln_f, choice);
    for (BlockOptions& block : options.h) make_mistake(block, choice);
    return;
  }
  if (choice.where == "transformer.ln_f" && mistake.in_norm != nullptr) {
    return mistake.in_norm(options.ln_f, choice);
  }
  constexpr std::string_view kBlock = "transformer.h.";
  std::string_view rest = choice.where;
  std::size_t layer = options.h.size();
  if (rest.starts_with(kBlock)) {
    rest.remove_prefix(kBlock.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (error != std::errc()) layer = options.h.size();
  }
  const bool known = rest.empty() || rest == ".ln_1" || rest == ".ln_2";
  if (layer >= options.h.size() || !known) {
    throw ConfigError("mistake: where: expected transformer.h.0 to " +
                      std::to_string(options.h.size() - 1) + ", or a norm, found '" + choice.where +
                      "'");
  }
  make_mistake(options.h[layer], choice, rest.empty() ? rest : rest.substr(1));
}

}  // namespace prenorm::reference
