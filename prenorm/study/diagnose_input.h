// What a diagnosis reads: what went into the model, and what the user's code made of it. Every
// tensor is checked before anything is computed.
#pragma once
#include <string>
#include <vector>

#include "prenorm/formats/tensor_file.h"
#include "prenorm/study/diagnose_replay.h"

namespace prenorm {

struct DiagnoseInput {
  DiagnoseProblem problem;
  // The smallest type that holds all their numbers: bfloat16, half or float32.
  reference::Numbers numbers = reference::Numbers::kFloat32;
  bool logits_only = false;
  std::vector<std::string> ignored;  // names of tensors that nothing is compared with
  // All their logits, [B·T, V], as they are; empty without.
  Floats logits;
};

// `input` holds input_ids (integers [B, T] or [T]) or input ([B, T, C] or [T, C]); `theirs` any
// stages, and output where the model is a block. Throws FormatError naming the tensor: unknown
// (with the nearest name that is known), of another shape or type, not finite, there twice; and for
// nothing to compare.
DiagnoseInput read_diagnose_input(const DiagnoseModel& model, const TensorFile& input,
                                  const TensorFile& theirs, NameLayout layout = NameLayout::kAuto);

}  // namespace prenorm
