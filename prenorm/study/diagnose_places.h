// Where mistakes are: module paths, moving a choice to another layer, and how a choice is reported.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "prenorm/study/diagnose_hypotheses.h"
#include "prenorm/study/diagnose_stages.h"

namespace prenorm {

// A choice that explains a part of the model, and by how much it is the best.
struct FoundMistake {
  MistakeChoice choice;
  double margin = 0.0;
};

// The same mistake but for its place and, where that is fitted, its number.
bool same_mistake(const MistakeChoice& a, const MistakeChoice& b);

// "transformer.h.0.ln_1" → "transformer.h.3.ln_1".
MistakeChoice moved_to_layer(MistakeChoice choice, Index layer);

// The first stage that a choice in one layer changes; nothing: of a mistake that changes which
// stages feed which, or the whole model.
std::optional<Index> changed_slot(const StageList& stages, const MistakeChoice& choice);

// Whether a set of choices could change one of the `bad` stages: what a choice changes shows in the
// first of `slots`, the stages of the dump, from there on.
bool may_change(const StageList& stages, const std::vector<MistakeChoice>& mistakes,
                std::span<const Index> slots, std::span<const Index> bad);

// "everywhere", or the module that has the mistake: a norm, transformer.h.2.attn,
// transformer.h.2.mlp.act, transformer.h.2.attn.c_proj, or the block.
std::string place_of(const MistakeChoice& choice);

// ε as people write it, where the fit leaves the choice; the mask's number; shifts.
std::optional<double> reported_number(const MistakeChoice& choice);

// The packing, or the tensor: attn.c_proj.weight, mlp.c_fc.bias.
std::string reported_text(const MistakeChoice& choice);

}  // namespace prenorm
