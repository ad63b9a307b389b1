// The stages of a model in the order of the computation, and their names in other programs.
//
//   const StageList stages(12);                      // of a model with 12 layers
//   stages.name(stages.of(0, Stage::kLn1));          // "transformer.h.0.ln_1"
//   stages.find("blocks.0.attn.hook_z", NameLayout::kAuto);
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/base/index.h"

namespace prenorm {

// Inside a block, in this order. Attended are the heads' outputs side by side, before c_proj; the
// middle is the residual stream between the two sub-layers.
enum class Stage {
  kLn1,
  kCAttn,
  kAttended,
  kAttnProj,
  kMiddle,
  kLn2,
  kFc,
  kAct,
  kMlpProj,
  kBlock,
};
constexpr Index kStagesInBlock = 10;

// Whose names: "auto" takes any.
enum class NameLayout { kAuto, kHuggingFace, kNanoGpt, kTransformerLens, kLlamaCpp, kPrenorm };
std::optional<NameLayout> name_layout_from_name(std::string_view name);
std::string_view name_layout_name(NameLayout layout);

// What a tensor of a dump is.
struct DumpedStage {
  Index slot = -1;
  int part = -1;         // 0, 1, 2: the q, k or v third of c_attn
  bool ignored = false;  // known, but nothing that is compared
};

class StageList {
 public:
  explicit StageList(Index layers) : layers_(layers) {}

  // Slots count the stages: the embedding sum, ten a block, the final norm, the logits.
  Index embedding() const { return 0; }
  Index of(Index layer, Stage stage) const {
    return 1 + layer * kStagesInBlock + static_cast<Index>(stage);
  }
  Index final_norm() const { return 1 + layers_ * kStagesInBlock; }
  Index logits() const { return final_norm() + 1; }
  Index count() const { return logits() + 1; }
  Index layers() const { return layers_; }
  // The block that a slot is in, or nothing.
  std::optional<Index> layer(Index slot) const;
  std::optional<Stage> stage(Index slot) const;

  // Hugging Face's module; of the two that are none's output, "transformer.h.0.attn.attended" and
  // "transformer.h.0.middle".
  std::string name(Index slot) const;

  // What a tensor of that name holds; nothing: not a name of this layout.
  std::optional<DumpedStage> find(std::string_view name, NameLayout layout) const;
  // All names that find() would take, for "did you mean".
  std::vector<std::string> names(NameLayout layout) const;

 private:
  Index layers_;
};

}  // namespace prenorm
