#include "prenorm/train/run_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/folder.h"
#include "prenorm/train/state.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoint = "checkpoint-";
constexpr const char* kBest = "best";
constexpr Index kUnknown = std::numeric_limits<Index>::max();

// The step in a checkpoint's name; nothing for other names, "checkpoint-007" among them.
std::optional<Index> step_of(const std::string& name) {
  if (!name.starts_with(kCheckpoint)) return std::nullopt;
  const char* const begin = name.data() + kCheckpoint.size();
  const char* const end = name.data() + name.size();
  Index iter = -1;
  const auto [last, error] = std::from_chars(begin, end, iter);
  const bool good = error == std::errc() && last == end && iter >= 0 &&
                    name == std::string(kCheckpoint) + std::to_string(iter);
  return good ? std::optional(iter) : std::nullopt;
}

// Newest first.
std::vector<Index> checkpoints(const fs::path& run) {
  std::vector<Index> iters;
  std::error_code ignored;
  if (!fs::is_directory(run, ignored)) return iters;
  for (const fs::path& path : list_folder(run)) {
    const auto iter = step_of(path.filename().string());
    if (iter && fs::is_directory(path, ignored)) iters.push_back(*iter);
  }
  std::ranges::sort(iters, std::greater());
  return iters;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

struct Candidate {
  fs::path folder;
  Index iter = 0;
  int rank = 0;  // of those of the same step: a checkpoint, the run's own files, best
};

// The step that a folder's state names; of one that does not say the newest.
Index step_in(const fs::path& folder) {
  try {
    return read_training_state_summary(folder).iter;
  } catch (const Error&) {
    return kUnknown;
  }
}

// Newest first.
std::vector<Candidate> candidates(const fs::path& run) {
  std::vector<Candidate> found;
  for (const Index iter : checkpoints(run))
    found.push_back({checkpoint_folder(run, iter), iter, 0});
  // The run's own files are mostly those of the newest checkpoint: then there is nothing more in
  // them. Where they are cut off or half replaced, the checkpoints say more about them.
  const bool linked = !found.empty() &&
                      is_same_file(run / kTrainingStateJson, found[0].folder / kTrainingStateJson);
  if (!linked && has_training_state(run)) found.push_back({run, step_in(run), 1});
  if (has_training_state(run / kBest)) {
    const Index iter = step_in(run / kBest);
    found.push_back({run / kBest, iter == kUnknown ? -1 : iter, 2});
  }
  std::ranges::stable_sort(found, [](const Candidate& a, const Candidate& b) {
    return a.iter != b.iter ? a.iter > b.iter : a.rank < b.rank;
  });
  return found;
}

// What is wrong with it; empty: nothing, and `iter` is its step.
std::string damage_of(const Candidate& candidate, Index& iter) {
  try {
    iter = check_training_state(candidate.folder).iter;
    if (candidate.rank != 0 || iter == candidate.iter) return "";
    return fmt::format("{}: expected the state of step {}, found that of step {}",
                       (candidate.folder / kTrainingStateJson).string(), candidate.iter, iter);
  } catch (const Error& error) {
    return error.what();
  }
}

// The files of a state, its own JSON last: a folder that has it has all.
std::vector<std::string> files_of(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : list_folder(folder)) {
    const std::string name = path.filename().string();
    if (name != kTrainingStateJson && !name.starts_with('.')) names.push_back(name);
  }
  std::ranges::sort(names);
  names.emplace_back(kTrainingStateJson);
  return names;
}

void link_files(const fs::path& from, const fs::path& to) {
  for (const std::string& name : files_of(from)) link_file(from / name, to / name);
  sync_folder(to);
}

// Nothing where the files of the state are those of the run's folder too: the same, or whole
// copies. Otherwise what those are instead.
std::optional<std::string> others_than(const fs::path& state, const fs::path& run) {
  const std::vector<std::string> names = files_of(state);
  if (std::ranges::all_of(
          names, [&](const std::string& name) { return is_same_file(state / name, run / name); })) {
    return std::nullopt;
  }
  try {
    const Index iter = check_training_state(run).iter;
    if (read_file(run / kTrainingStateJson) == read_file(state / kTrainingStateJson))
      return std::nullopt;
    return fmt::format("they were those of step {}", iter);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

fs::path checkpoint_folder(const fs::path& run, Index iter) {
  return run / (std::string(kCheckpoint) + std::to_string(iter));
}

bool holds_states(const fs::path& run) { return !candidates(run).empty(); }

std::optional<ChosenState> choose_state(const fs::path& run) {
  const std::vector<Candidate> all = candidates(run);
  if (all.empty()) return std::nullopt;
  ChosenState chosen;
  for (const Candidate& candidate : all) {
    const std::string damage = damage_of(candidate, chosen.iter);
    if (damage.empty()) {
      chosen.folder = candidate.folder;
      return chosen;
    }
    chosen.damages.push_back(damage);
    chosen.damaged.push_back(candidate.folder);
  }
  throw FormatError(fmt::format("{}: expected a state that is whole, found {} that {} not: {}",
                                run.string(), all.size(), all.size() == 1 ? "is" : "are",
                                chosen.damages.front()));
}

std::optional<std::string> return_to(const fs::path& run, const ChosenState& state) {
  for (const fs::path& folder : state.damaged) {
    if (folder == run) continue;
    fs::path aside = folder;
    aside += ".damaged";
    replace_folder_durably(folder, aside);
  }
  if (state.folder == run) return std::nullopt;
  const std::optional<std::string> others = others_than(state.folder, run);
  if (others) link_files(state.folder, run);
  return others;
}

void save_state(const fs::path& run, Index iter, FunctionRef<void(const fs::path&)> fill) {
  const fs::path saving = run / ".saving";
  std::error_code ignored;
  fs::remove_all(saving, ignored);
  try {
    ensure_directory(saving);
    fill(saving);
    sync_folder(saving);
    replace_folder_durably(saving, checkpoint_folder(run, iter));
  } catch (...) {
    fs::remove_all(saving, ignored);  // a full disk has room again
    throw;
  }
}

void publish_state(const fs::path& run, Index iter) {
  link_files(checkpoint_folder(run, iter), run);
}

void mark_as_best(const fs::path& run, Index iter) {
  if (is_same_file(run / kBest / kTrainingStateJson,
                   checkpoint_folder(run, iter) / kTrainingStateJson))
    return;
  const fs::path saving = run / ".saving-best";
  ensure_directory(saving);
  link_files(checkpoint_folder(run, iter), saving);
  replace_folder_durably(saving, run / kBest);
}

void keep_newest(const fs::path& run, Index iter, Index keep) {
  for (const Index each : checkpoints(run)) {
    if (each > iter) continue;  // of no session that this one goes on from
    if (keep-- <= 0) remove_folder(checkpoint_folder(run, each));
  }
}

void remove_states(const fs::path& run) {
  for (const Index iter : checkpoints(run)) remove_folder(checkpoint_folder(run, iter));
  if (is_there(run / kBest)) remove_folder(run / kBest);
  for (const char* name : {kTrainingStateJson, kTrainingStateTensors}) {
    std::error_code error;
    fs::remove(run / name, error);
    if (error) {
      throw IoError((run / name).string() + ": expected a file that can be removed, found " +
                    error.message());
    }
  }
}

}  // namespace prenorm
