// What a run needs to go on, beside the model's own files in the run folder:
//
//   training_state.safetensors   AdamW's moments, "exp_avg.NAME" and "exp_avg_sq.NAME"
//   training_state.json          step, counters, options, model, fingerprints of data and weights,
//                                checksums of all files and of itself (state_checksums.h)
//
// A resumed run ends in the bits of one that was never interrupted.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "prenorm/train/trainer.h"

namespace prenorm {

// What a state says about itself, to build the trainer that goes on with it.
struct TrainingStateSummary {
  TrainOptions options;
  Index iter = 0;
};

inline constexpr const char* kTrainingStateJson = "training_state.json";
inline constexpr const char* kTrainingStateTensors = "training_state.safetensors";

// Of the bits of all weights, in the registry's order.
std::uint64_t weights_fingerprint(const ParameterRegistry& parameters);

bool has_training_state(const std::filesystem::path& folder);

// Throws IoError, and FormatError naming the file and the key.
TrainingStateSummary read_training_state_summary(const std::filesystem::path& folder);

// Writes both files durably, the JSON last, with checksums of the files of model and tokenizer that
// are in the folder: save_pretrained() writes the weights first. Throws IoError.
void save_training_state(const std::filesystem::path& folder, const Trainer& trainer);

// Reads all files that belong to the state, and throws FormatError or IoError naming the one that
// is damaged or missing. States of versions before 0.1 have no checksums: of them only what no
// reader would take is found. Returns what the state says.
TrainingStateSummary check_training_state(const std::filesystem::path& folder);

// Puts moments and position into a trainer whose model already holds the folder's weights.
// Throws ConfigError naming what differs and would change the run's meaning: the model, the
// weights, the data, seed, batch_size, gradient_accumulation_steps. Other options may change;
// returns one line for each that did, e.g. "max_iters: 2000 before, 4000 now".
std::vector<std::string> load_training_state(const std::filesystem::path& folder, Trainer& trainer);

}  // namespace prenorm
