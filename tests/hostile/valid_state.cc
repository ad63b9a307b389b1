#include <optional>
#include <type_traits>

#include "prenorm/base/json.h"
#include "prenorm/train/options_fields.h"
#include "tests/hostile/valid_files.h"

namespace prenorm::hostile {
namespace {

template <typename T>
Json json_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(value));
  } else {
    return value;
  }
}
template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? json_of(*value) : Json(nullptr);
}

}  // namespace

// Of version 1, which has no checksum: what is altered in it reaches what reads the fields.
std::string valid_state() {
  const TrainOptions defaults;
  Json options = Json::object();
  visit_train_options(defaults, [&](const char* name, const auto& field, OnResume) {
    options[name] = json_of(field);
  });
  const Json position = {
      {"iter", 5},          {"skipped_steps", 0},       {"bad_steps_in_a_row", 0},
      {"last_val_loss", 2}, {"best_val_loss", nullptr}, {"best_iter", 5}};
  return dump_json({{"format", "prenorm-training-state"},
                    {"version", 1},
                    {"position", position},
                    {"optimizer_steps", 5},
                    {"options", options}});
}

}  // namespace prenorm::hostile
