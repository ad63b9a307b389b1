// Malformed training states. That a damaged one is passed over for an older one is tested where
// states are saved; here each is alone.
#include <sys/stat.h>

#include <utility>

#include "prenorm/base/json.h"
#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

constexpr const char* kState = "training_state.json";

class Table : public HostileTable {
 public:
  Table() : HostileTable("state_", Opener::kState) {}

  HostileFile& add(const std::string& name, const std::string& text, const std::string& expected) {
    return add_folder(name, {{kState, text}}, kState, expected);
  }
  // The valid state, with the value at a JSON pointer put there.
  void put(const std::string& name, const std::string& pointer, const Json& value,
           const std::string& expected) {
    add(name, json_with(valid_, pointer, value), expected);
  }

 private:
  const Json valid_ = parse_json(valid_state(), "valid");
};

}  // namespace

std::vector<HostileFile> state_files() {
  Table table;
  const std::string valid = valid_state();
  table.add("empty", "", "expected JSON");
  table.add("that_is_a_list", "[]", "an object");
  table.add("cut_off", valid.substr(0, valid.size() / 2), "expected JSON");
  table.add("nested_too_deep", "{\"position\":" + std::string(100'000, '['), "64 levels");
  table.add("key_twice", "{\"format\":1,\"format\":2}", "'format' twice");
  table.put("of_another_format", "/format", "x", "prenorm-training-state");
  table.put("format_that_is_a_number", "/format", 7, "expected text for \"format\"");
  table.put("of_a_newer_version", "/version", 1'000, "found prenorm-training-state 1000");
  table.put("version_that_wraps_to_1", "/version", 18446744073709551615ull, "\"version\"");
  table.put("position_that_is_a_list", "/position", Json::array(), "an object");
  table.put("iter_of_2_to_the_63", "/position/iter", 9223372036854775808ull, "\"iter\"");
  table.put("iter_fractional", "/position/iter", 1.5, "\"iter\"");
  table.put("iter_as_text", "/position/iter", "5", "\"iter\"");
  table.put("options_that_are_text", "/options", "x", "an object");
  table.put("seed_negative", "/options/seed", -1, "\"seed\"");
  table.put("batch_size_of_2_to_the_63", "/options/batch_size", 9223372036854775808ull,
            "\"batch_size\"");
  table.put("schedule_unknown", "/options/lr_schedule", "cosmic", "lr_schedule: expected one of");
  table.put("initialization_unknown", "/options/init", "x", "init: expected one of");
  table.put("rate_that_is_null", "/options/learning_rate", nullptr, "\"learning_rate\"");
  HostileFile& file = table.add("that_is_a_pipe", "", "a pipe or a device");
  file.files.clear();
  file.arrange = [](const std::filesystem::path& folder) {
    mkfifo((folder / kState).c_str(), 0600);
  };
  return table.take();
}

}  // namespace prenorm::hostile
