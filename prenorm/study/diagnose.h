// Why do these numbers differ? Names the mistake in code that computes a model wrongly, from what
// it computed: any of its stages, or its logits alone.
//
//   const DiagnoseModel model = read_diagnose_model("RUN");
//   const DiagnoseInput input = read_diagnose_input(model, read_tensors("x.safetensors"),
//                                                   read_tensors("theirs.safetensors"), {});
//   const Diagnosis found = diagnose(run, model, input);
//   found.mistakes.front().name   // "norm.ddof"
//
// docs/diagnose.md tells every name, how it is found and what each answer means.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "prenorm/study/diagnose_input.h"
#include "prenorm/study/diagnose_model.h"

namespace prenorm {

enum class DiagnosisStatus { kEqual, kNamed, kAmbiguous, kUnknown };
std::string_view diagnosis_status_name(DiagnosisStatus status);

// A mistake as it is reported: once, wherever it is.
struct NamedMistake {
  std::string name;                      // of reference/mistake_table.h
  std::string where = "everywhere";      // or the module that has it
  std::vector<std::string> places = {};  // where it is in some layers but not in all
  std::optional<double> number = {};  // ε, the mask's number, how far mask or position is shifted
  std::string text = {};              // the packing; the tensor
  double margin = 0.0;                // the runner-up's mean square residual over this one's
};

// How far a stage of the dump is from its replay from the dump's own inputs.
struct DivergedStage {
  std::string name;
  double relative = 0.0;  // root mean square of the difference over that of the stage
  double rounding = 0.0;  // the same of float32, or of the dump's type
  bool departs = false;
};

struct Diagnosis {
  DiagnosisStatus status = DiagnosisStatus::kUnknown;
  std::vector<NamedMistake> mistakes;
  std::vector<std::string> candidates;                        // with kAmbiguous: all names in play
  std::optional<std::string> first_divergence;                // a stage; nothing with logits alone
  std::vector<DivergedStage> stages;                          // those of the dump, in order
  reference::Numbers numbers = reference::Numbers::kFloat32;  // of the dump
  std::vector<std::string> notes;                             // sentences
};

// `progress` is told what is going on where the search takes long.
Diagnosis diagnose(const Runtime& run, const DiagnoseModel& model, const DiagnoseInput& input,
                   const std::function<void(const std::string&)>& progress = {});

}  // namespace prenorm
