#include "prenorm/study/diagnose_stages.h"

#include <algorithm>
#include <charconv>

namespace prenorm {
namespace {

// A stage of a block under a name of another program; `#` stands for the layer's number.
struct BlockAlias {
  NameLayout layout;
  std::string_view name;
  Stage stage;
  int part = -1;
};
constexpr NameLayout kHf = NameLayout::kHuggingFace, kNano = NameLayout::kNanoGpt,
                     kLens = NameLayout::kTransformerLens, kLlama = NameLayout::kLlamaCpp,
                     kOwn = NameLayout::kPrenorm;

constexpr BlockAlias kBlockAliases[] = {
    {kHf, "transformer.h.#.ln_1", Stage::kLn1},
    {kHf, "transformer.h.#.attn.c_attn", Stage::kCAttn},
    {kHf, "transformer.h.#.attn.attended", Stage::kAttended},
    {kHf, "transformer.h.#.attn.c_proj", Stage::kAttnProj},
    {kHf, "transformer.h.#.attn", Stage::kAttnProj},
    {kHf, "transformer.h.#.attn.resid_dropout", Stage::kAttnProj},
    {kHf, "transformer.h.#.middle", Stage::kMiddle},
    {kHf, "transformer.h.#.ln_2", Stage::kLn2},
    {kHf, "transformer.h.#.mlp.c_fc", Stage::kFc},
    {kHf, "transformer.h.#.mlp.act", Stage::kAct},
    {kHf, "transformer.h.#.mlp.c_proj", Stage::kMlpProj},
    {kHf, "transformer.h.#.mlp.dropout", Stage::kMlpProj},
    {kHf, "transformer.h.#.mlp", Stage::kMlpProj},
    {kHf, "transformer.h.#", Stage::kBlock},
    {kNano, "transformer.h.#.mlp.gelu", Stage::kAct},
    {kLens, "blocks.#.ln1.hook_normalized", Stage::kLn1},
    {kLens, "blocks.#.hook_attn_in", Stage::kLn1},
    {kLens, "blocks.#.attn.hook_q", Stage::kCAttn, 0},
    {kLens, "blocks.#.attn.hook_k", Stage::kCAttn, 1},
    {kLens, "blocks.#.attn.hook_v", Stage::kCAttn, 2},
    {kLens, "blocks.#.attn.hook_z", Stage::kAttended},
    {kLens, "blocks.#.hook_attn_out", Stage::kAttnProj},
    {kLens, "blocks.#.hook_resid_mid", Stage::kMiddle},
    {kLens, "blocks.#.ln2.hook_normalized", Stage::kLn2},
    {kLens, "blocks.#.mlp.hook_pre", Stage::kFc},
    {kLens, "blocks.#.mlp.hook_post", Stage::kAct},
    {kLens, "blocks.#.hook_mlp_out", Stage::kMlpProj},
    {kLens, "blocks.#.hook_resid_post", Stage::kBlock},
    {kLlama, "attn_norm-#", Stage::kLn1},
    {kLlama, "wqkv-#", Stage::kCAttn},
    {kLlama, "bqkv-#", Stage::kCAttn},
    {kLlama, "Qcur-#", Stage::kCAttn, 0},
    {kLlama, "Kcur-#", Stage::kCAttn, 1},
    {kLlama, "Vcur-#", Stage::kCAttn, 2},
    {kLlama, "kqv_out-#", Stage::kAttended},
    {kLlama, "kqv_merged_cont-#", Stage::kAttended},
    {kLlama, "attn_out-#", Stage::kAttnProj},
    {kLlama, "ffn_inp-#", Stage::kMiddle},
    {kLlama, "ffn_norm-#", Stage::kLn2},
    {kLlama, "ffn_up_b-#", Stage::kFc},
    {kLlama, "ffn_gelu-#", Stage::kAct},
    {kLlama, "ffn_out-#", Stage::kMlpProj},
    {kLlama, "l_out-#", Stage::kBlock},
    {kOwn, "block.#.ln_1", Stage::kLn1},
    {kOwn, "block.#.middle", Stage::kMiddle},
    {kOwn, "block.#.ln_2", Stage::kLn2},
    {kOwn, "block.#", Stage::kBlock},
};

enum class Whole { kEmbedding, kFinalNorm, kLogits };
struct WholeAlias {
  NameLayout layout;
  std::string_view name;
  Whole stage;
};
constexpr WholeAlias kWholeAliases[] = {
    {kHf, "transformer.drop", Whole::kEmbedding},
    {kHf, "transformer.ln_f", Whole::kFinalNorm},
    {kHf, "logits", Whole::kLogits},
    {kHf, "lm_head", Whole::kLogits},
    {kLens, "blocks.0.hook_resid_pre", Whole::kEmbedding},
    {kLens, "ln_final.hook_normalized", Whole::kFinalNorm},
    {kLlama, "inpL", Whole::kEmbedding},
    {kLlama, "result_norm", Whole::kFinalNorm},
    {kLlama, "result_output", Whole::kLogits},
};

// Known, and nothing to compare: parts of a stage that the whole stage says better.
constexpr std::string_view kIgnored[] = {
    "transformer.wte",
    "transformer.wpe",
    "transformer.h.#.attn.attn_dropout",
    "blocks.#.hook_resid_pre",
    "blocks.#.ln1.hook_scale",
    "blocks.#.ln2.hook_scale",
    "blocks.#.attn.hook_attn_scores",
    "blocks.#.attn.hook_pattern",
    "blocks.#.attn.hook_result",
    "blocks.#.hook_mlp_in",
    "ln_final.hook_scale",
    "hook_embed",
    "hook_pos_embed",
    "hook_tokens",
    "norm-#",
    "norm_w-#",
    "ffn_up-#",
    "kq-#",
    "kq_soft_max_ext-#",
    "kqv-#",
    "norm",
    "norm_w",
    "inp_tokens",
    "inp_embd",
    "pos_embd",
};

std::string with_layer(std::string_view pattern, Index layer) {
  std::string out(pattern);
  const std::size_t at = out.find('#');
  if (at != std::string::npos) out.replace(at, 1, std::to_string(layer));
  return out;
}

// The layer's number in a name of that pattern.
std::optional<Index> match(std::string_view pattern, std::string_view name) {
  const std::size_t at = pattern.find('#');
  if (at == std::string_view::npos) {
    return name == pattern ? std::optional<Index>(0) : std::nullopt;
  }
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after)) {
    return std::nullopt;
  }
  const std::string_view digits =
      name.substr(before.size(), name.size() - before.size() - after.size());
  Index layer = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  const bool whole = error == std::errc() && layer >= 0 && end == digits.data() + digits.size();
  return whole && std::to_string(layer) == digits ? std::optional(layer) : std::nullopt;
}

// What wrappers put in front, and what nanoGPT's and bare models leave out.
std::string canonical(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : {"module.", "_orig_mod.", "model."}) {
      if (!name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      again = true;
    }
  }
  for (const std::string_view bare : {"h.", "ln_f", "drop", "wte", "wpe"}) {
    if (name == bare || (name.starts_with(bare) && bare.ends_with("."))) {
      return "transformer." + std::string(name);
    }
  }
  return std::string(name);
}

// Hugging Face's names are also nanoGPT's and, where there is no other, ours.
bool serves(NameLayout alias, NameLayout asked) {
  if (asked == NameLayout::kAuto || alias == asked) return true;
  return alias == kHf && (asked == kNano || asked == kOwn);
}

constexpr std::string_view kLayoutNames[] = {"auto",      "hf",     "nanogpt", "transformerlens",
                                             "llama.cpp", "prenorm"};

}  // namespace

std::optional<NameLayout> name_layout_from_name(std::string_view name) {
  const auto it = std::ranges::find(kLayoutNames, name);
  if (it == std::end(kLayoutNames)) return std::nullopt;
  return static_cast<NameLayout>(it - std::begin(kLayoutNames));
}

std::string_view name_layout_name(NameLayout layout) {
  return kLayoutNames[static_cast<std::size_t>(layout)];
}

std::optional<Index> StageList::layer(Index slot) const {
  if (slot < 1 || slot >= final_norm()) return std::nullopt;
  return (slot - 1) / kStagesInBlock;
}

std::optional<Stage> StageList::stage(Index slot) const {
  if (slot < 1 || slot >= final_norm()) return std::nullopt;
  return static_cast<Stage>((slot - 1) % kStagesInBlock);
}

std::string StageList::name(Index slot) const {
  if (slot == embedding()) return "transformer.drop";
  if (slot == final_norm()) return "transformer.ln_f";
  if (slot == logits()) return "logits";
  for (const BlockAlias& alias : kBlockAliases) {
    if (alias.layout == kHf && alias.stage == stage(slot)) {
      return with_layer(alias.name, *layer(slot));
    }
  }
  return "";
}

std::optional<DumpedStage> StageList::find(std::string_view given, NameLayout layout) const {
  const std::string name = canonical(given);
  for (const WholeAlias& alias : kWholeAliases) {
    if (alias.name != name || !serves(alias.layout, layout)) continue;
    if (alias.stage == Whole::kEmbedding) return DumpedStage{embedding()};
    return DumpedStage{alias.stage == Whole::kFinalNorm ? final_norm() : logits()};
  }
  for (const BlockAlias& alias : kBlockAliases) {
    if (!serves(alias.layout, layout)) continue;
    const std::optional<Index> layer = match(alias.name, name);
    if (layer && *layer < layers_) return DumpedStage{of(*layer, alias.stage), alias.part};
  }
  for (const std::string_view pattern : kIgnored) {
    if (match(pattern, name)) return DumpedStage{.ignored = true};
  }
  return std::nullopt;
}

std::vector<std::string> StageList::names(NameLayout layout) const {
  std::vector<std::string> out;
  for (const WholeAlias& alias : kWholeAliases) {
    if (serves(alias.layout, layout)) out.emplace_back(alias.name);
  }
  for (const BlockAlias& alias : kBlockAliases) {
    if (!serves(alias.layout, layout)) continue;
    for (Index l = 0; l < layers_; ++l) out.push_back(with_layer(alias.name, l));
  }
  return out;
}

}  // namespace prenorm
