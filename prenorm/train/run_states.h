// The states of a run in its folder, each of them a model folder of its own with all files that
// belong together:
//
//   RUN/checkpoint-500/, RUN/checkpoint-1000/   the newest few, by their steps
//   RUN/best/                                   that with the lowest validation loss
//   RUN/                                        the files of the newest, as hard links
//
//   remove_leftovers(run);                              // folder.h; one process at a time
//   if (const auto state = choose_state(run)) { return_to(run, *state); resume(state->folder); }
//   save_state(run, iter, [&](const auto& folder) { save_pretrained(model, folder); ... });
//   publish_state(run, iter);
//   keep_newest(run, iter, 2);
//
// A save is written beside the states, synced, and gets its name whole; only then do the files of
// the run's folder follow, and only then older states go. So at every moment the newest state that
// was finished can be resumed, whatever ends the process.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "prenorm/base/function_ref.h"
#include "prenorm/base/index.h"

namespace prenorm {

std::filesystem::path checkpoint_folder(const std::filesystem::path& run, Index iter);

// Whether there is anything that is, or was, a state.
bool holds_states(const std::filesystem::path& run);

struct ChosenState {
  std::filesystem::path folder;  // the run's own, a checkpoint or best
  Index iter = 0;
  // What is wrong with newer states, a line for each: the file, what was expected, what was found.
  std::vector<std::string> damages;
  std::vector<std::filesystem::path> damaged;  // their folders
};

// The newest state whose files are all as they were saved (check_training_state()); nothing where
// the folder holds no state. Throws FormatError where it holds some and none is good.
std::optional<ChosenState> choose_state(const std::filesystem::path& run);

// Makes the run go on from the chosen state. The files of the run's folder become links to its
// files where they are others: returns what they were, such as another step's or damaged, with the
// file's name. Damaged checkpoints give up their names, so that new ones can take them:
// "checkpoint-500" becomes "checkpoint-500.damaged". Throws IoError.
std::optional<std::string> return_to(const std::filesystem::path& run, const ChosenState& state);

// Has `fill` write the files of a state, and makes the state count. Another one of the same step is
// replaced. On an error the states are as they were. Throws IoError and what `fill` throws.
void save_state(const std::filesystem::path& run, Index iter,
                FunctionRef<void(const std::filesystem::path&)> fill);

// Makes the files of the run's folder links to those of the checkpoint. Throws IoError.
void publish_state(const std::filesystem::path& run, Index iter);

// Makes best/ a folder of links to the files of the checkpoint. Throws IoError.
void mark_as_best(const std::filesystem::path& run, Index iter);

// Removes all checkpoints but the newest `keep`, of which that of `iter` is one. Throws IoError.
void keep_newest(const std::filesystem::path& run, Index iter, Index keep);

// Removes every state, for a run that takes the place of another; the model's files stay for now.
void remove_states(const std::filesystem::path& run);

}  // namespace prenorm
