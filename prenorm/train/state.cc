#include "prenorm/train/state.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/config_json.h"
#include "prenorm/train/options_fields.h"
#include "prenorm/train/state_checksums.h"

namespace prenorm {
namespace {

constexpr const char* kFormat = "prenorm-training-state";
// 1: without checksums and what came with them; 2: without dtype.
constexpr Index kVersion = 3;

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
Json to_json(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? to_json(*value) : Json(nullptr);
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(value));
  } else {
    return value;
  }
}

// A JSON object of a state file; every failure names the file and the key.
class Reader {
 public:
  // `lenient`: of an older version, in which keys may be missing.
  Reader(const Json& object, std::string name, bool lenient)
      : object_(object), name_(std::move(name)), lenient_(lenient) {
    if (!object.is_object()) throw FormatError(name_ + ": expected an object, found another value");
  }

  const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) {
      throw FormatError(fmt::format("{}: expected a key \"{}\", found none", name_, key));
    }
    return *found;
  }
  Reader object(const char* key) const { return {at(key), name_ + " " + key, lenient_}; }

  template <typename T>
  void read(const char* key, T& out) const {
    if (lenient_ && !object_.contains(key)) return;
    convert(at(key), key, out);
  }

 private:
  // Text, a number, or a whole number that the type holds: one from 2^63 would wrap.
  template <typename T>
  static bool fits(const Json& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value.is_boolean();
    } else if constexpr (std::is_floating_point_v<T>) {
      return value.is_number();
    } else if constexpr (std::is_integral_v<T>) {
      if (value.is_number_unsigned()) return std::in_range<T>(value.get<std::uint64_t>());
      return value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
    } else {
      return value.is_string();
    }
  }

  template <typename T>
  void convert(const Json& value, const char* key, T& out) const {
    if constexpr (IsOptional<T>::value) {
      if (value.is_null()) {
        out.reset();
      } else {
        convert(value, key, out.emplace());
      }
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      if (!value.is_array()) refuse("a list", value, key);
      out.clear();
      for (const Json& each : value) convert(each, key, out.emplace_back());
    } else if constexpr (std::is_enum_v<T>) {
      std::string text;
      convert(value, key, text);
      try {
        if constexpr (std::is_same_v<T, LrSchedule>) {
          out = lr_schedule_from_string(text);
        } else if constexpr (std::is_same_v<T, Products>) {
          out = products_from_string(text);
        } else {
          out = initialization_from_string(text);
        }
      } catch (const ConfigError& error) {  // the file's fault, not a flag's
        throw FormatError(name_ + ": " + error.what());
      }
    } else {
      constexpr bool kText = std::is_same_v<T, std::string>, kSwitch = std::is_same_v<T, bool>;
      if (!fits<T>(value))
        refuse(kText ? "text" : kSwitch ? "true or false" : "a number", value, key);
      out = value.template get<T>();
    }
  }

  [[noreturn]] void refuse(const char* expected, const Json& value, const char* key) const {
    throw FormatError(fmt::format("{}: expected {} for \"{}\", found {}", name_, expected, key,
                                  value.type_name()));
  }

  const Json& object_;
  std::string name_;
  bool lenient_;
};

// visit(name, field) for each field of a position.
template <typename Position, typename Visit>
void visit_position(Position& p, Visit&& visit) {
  visit("iter", p.iter);
  visit("skipped_steps", p.skipped_steps);
  visit("bad_steps_in_a_row", p.bad_steps_in_a_row);
  visit("last_val_loss", p.last_val_loss);
  visit("best_val_loss", p.best_val_loss);
  visit("best_iter", p.best_iter);
  visit("evaluations_since_best", p.evaluations_since_best);
  visit("last_eval_iter", p.last_eval_iter);
  visit("last_report_iter", p.last_report_iter);
  visit("loss_sum", p.loss_sum);
  visit("loss_steps", p.loss_steps);
  visit("last_loss", p.last_loss);
  visit("last_grad_norm", p.last_grad_norm);
  visit("elapsed_seconds", p.elapsed_seconds);
  visit("recent_losses", p.losses.losses);
  visit("loss_was_high", p.losses.high);
}

Json model_json(const Trainer& trainer) {
  return parse_json(config_text(trainer.model().config()), "config");
}

Json options_json(const TrainOptions& options) {
  Json out = Json::object();
  visit_train_options(
      options, [&](const char* name, const auto& field, OnResume) { out[name] = to_json(field); });
  return out;
}

Json state_json(const Trainer& trainer) {
  Json position = Json::object();
  visit_position(trainer.position(),
                 [&](const char* name, const auto& field) { position[name] = to_json(field); });
  const TrainData& data = trainer.data();
  return {{"format", kFormat},
          {"version", kVersion},
          {"position", position},
          {"optimizer_steps", trainer.optimizer().steps()},
          {"options", options_json(trainer.options())},
          {"model", model_json(trainer)},
          {"weights", fmt::format("{:016x}", weights_fingerprint(trainer.model().parameters()))},
          {"data",
           {{"train_tokens", data.train.size()},
            {"validation_tokens", data.validation.size()},
            {"fingerprint", fmt::format("{:016x}", fingerprint(data))}}}};
}

// A training_state.json that has been read: what it says is as it was saved.
struct State {
  explicit State(const std::filesystem::path& file) : name(file.string()) {
    const std::string text = read_regular_file(file);
    json = parse_json(text, name);
    const Reader head(json, name, false);
    std::string format;
    head.read("format", format);
    head.read("version", version);
    if (format != kFormat || version < 1 || version > kVersion) {
      throw FormatError(fmt::format("{}: expected {} 1 to {}, found {} {}", name, kFormat, kVersion,
                                    format, version));
    }
    if (version > 1) check_own_checksum(text, name);
  }
  Reader reader() const { return {json, name, version == 1}; }

  std::string name;
  Json json;
  Index version = 0;
};

TrainOptions read_options(const Reader& reader) {
  TrainOptions options;
  visit_train_options(options,
                      [&](const char* name, auto& field, OnResume) { reader.read(name, field); });
  return options;
}

TrainingStateSummary summary_of(const State& state) {
  TrainingStateSummary summary{.options = read_options(state.reader().object("options"))};
  state.reader().object("position").read("iter", summary.iter);
  return summary;
}

void require_same(const std::filesystem::path& path, std::string_view what, const Json& saved,
                  const Json& now) {
  if (saved == now) return;
  throw ConfigError(fmt::format("{}: expected the run's {} {}, found {}", path.string(), what,
                                saved.dump(), now.dump()));
}

// The model's configuration key by key, so that the error names the one that differs.
void require_same_model(const std::filesystem::path& path, const Json& saved, const Json& now) {
  for (const auto& [key, value] : now.items()) {
    require_same(path, key, saved.contains(key) ? saved.at(key) : Json(nullptr), value);
  }
}

std::vector<std::string> compare_options(const std::filesystem::path& path, const Json& saved,
                                         const TrainOptions& options) {
  std::vector<std::string> changed;
  visit_train_options(options, [&](const char* name, const auto& field, OnResume rule) {
    const Json before = saved.at(name), now = to_json(field);
    if (before == now) return;
    if (rule == OnResume::kMustStay) require_same(path, name, before, now);
    const auto text = [](const Json& value) {
      return value.is_null() ? std::string("default") : value.dump();
    };
    changed.push_back(fmt::format("{}: {} before, {} now", name, text(before), text(now)));
  });
  return changed;
}

void load_moments(const std::filesystem::path& path, Index iter, AdamW& optimizer) {
  const Safetensors file(path);
  const auto found = file.metadata().find("iter");
  if (found == file.metadata().end() || found->second != std::to_string(iter)) {
    throw FormatError(fmt::format("{}: expected the moments of step {}, found those of {}",
                                  path.string(), iter,
                                  found == file.metadata().end() ? "none" : found->second));
  }
  const auto load = [&](const std::string& name, std::span<float> out) {
    const Tensor* tensor = file.find(name);
    if (tensor == nullptr || tensor->size() != static_cast<Index>(out.size())) {
      throw FormatError(fmt::format("{}: expected {} numbers in '{}', found {}", path.string(),
                                    out.size(), name, tensor ? tensor->size() : 0));
    }
    file.read(*tensor, out);
  };
  std::size_t index = 0;
  optimizer.assemble();
  for (const Parameter& p : optimizer.parameters()) {
    load("exp_avg." + p.name, optimizer.first_moment(index));
    load("exp_avg_sq." + p.name, optimizer.second_moment(index));
    ++index;
  }
  optimizer.keep_own();
}

}  // namespace

std::uint64_t weights_fingerprint(const ParameterRegistry& parameters) {
  std::uint64_t hash = 0;
  for (const float value : parameters.values()) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

bool has_training_state(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kTrainingStateJson);
}

TrainingStateSummary read_training_state_summary(const std::filesystem::path& folder) {
  return summary_of(State(folder / kTrainingStateJson));
}

void save_training_state(const std::filesystem::path& folder, const Trainer& trainer) {
  std::vector<Tensor> tensors;
  std::size_t index = 0;
  const AdamW& optimizer = trainer.optimizer();
  for (const Parameter& p : optimizer.parameters()) {
    tensors.push_back(tensor("exp_avg." + p.name, p.shape, optimizer.first_moment(index)));
    tensors.push_back(tensor("exp_avg_sq." + p.name, p.shape, optimizer.second_moment(index)));
    ++index;
  }
  save_safetensors(folder / kTrainingStateTensors, std::move(tensors),
                   {{"format", "pt"}, {"iter", std::to_string(trainer.position().iter)}});
  Json state = state_json(trainer);
  state["files"] = checksums_of_files(folder);
  write_file_durably(folder / kTrainingStateJson, with_own_checksum(std::move(state)));
}

TrainingStateSummary check_training_state(const std::filesystem::path& folder) {
  const State state(folder / kTrainingStateJson);
  TrainingStateSummary summary = summary_of(state);
  if (state.version > 1) {
    check_files(folder, state.reader().at("files"));
    return summary;
  }
  // Of an old state there are no checksums: what its files themselves can tell.
  for (const char* name : {kTrainingStateTensors, "model.safetensors"}) {
    static_cast<void>(Safetensors(folder / name));
  }
  return summary;
}

std::vector<std::string> load_training_state(const std::filesystem::path& folder,
                                             Trainer& trainer) {
  const std::filesystem::path path = folder / kTrainingStateJson;
  const State state(path);
  const Reader reader = state.reader();
  require_same_model(path, reader.at("model"), model_json(trainer));
  const Json saved = options_json(read_options(reader.object("options")));
  const std::vector<std::string> changed = compare_options(path, saved, trainer.options());
  const Json now = state_json(trainer);
  for (const char* key : {"train_tokens", "validation_tokens", "fingerprint"}) {
    require_same(path, key, reader.object("data").at(key), now.at("data").at(key));
  }
  require_same(path, "weights", reader.at("weights"), now.at("weights"));
  TrainingPosition position;
  visit_position(position, [at = reader.object("position")](const char* name, auto& field) {
    at.read(name, field);
  });
  Index steps = 0;
  reader.read("optimizer_steps", steps);
  load_moments(folder / kTrainingStateTensors, position.iter, trainer.optimizer());
  trainer.optimizer().set_steps(steps);
  trainer.set_position(position);
  return changed;
}

}  // namespace prenorm
