// Malformed TOML and metrics.jsonl.
#include <utility>

#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

class Table : public HostileTable {
 public:
  Table() : HostileTable("", Opener::kToml) {}

  void toml(const std::string& name, const std::string& text, const std::string& expected) {
    add_file("toml_" + name, "run.toml", text, expected);
  }
  void metrics(const std::string& name, const std::string& line, const std::string& expected) {
    add_file("metrics_" + name, "metrics.jsonl", valid_metrics() + line + "\n", expected).opener =
        Opener::kMetrics;
  }
};

std::string repeated(int times, const std::string& text) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

void add_toml(Table& table) {
  table.toml("without_a_value", "seed =\n", "expected TOML");
  table.toml("cut_off_in_a_string", "out_dir = \"run\n", "expected TOML");
  table.toml("key_twice", "seed = 1\nseed = 2\n", "expected TOML");
  table.toml("table_twice", "[train]\nseed = 1\n[train]\n", "expected TOML");
  table.toml("value_as_table", "a = 1\n[a.b]\n", "expected TOML");
  table.toml("not_utf8", "out_dir = \"\xC3\x28\"\n", "expected TOML");
  table.toml("of_zeros", std::string(100, '\0'), "expected TOML");
  table.toml("number_of_2_to_the_63", "seed = 9223372036854775808\n", "expected TOML");
  table.toml("date", "seed = 1979-05-27\n", "found a date or a time");
  table.toml("list_of_numbers", "data = [1, 2]\n", "strings in the array");
  table.toml("lists_100000_deep", "a = " + std::string(100'000, '['), "expected TOML");
  table.toml("tables_in_lists_100000_deep", "a = " + repeated(100'000, "[{a="), "expected TOML");
  table.toml("keys_100000_deep", repeated(100'000, "a.") + "b = 1\n", "at most 1000 dots");
  table.toml("tables_100000_deep", "[" + repeated(100'000, "a.") + "b]\n", "at most 1000 dots");
  table.toml("tables_100_deep", "[" + repeated(100, "a.") + "b]\nc = 1\n", "64 deep");
  table.toml(
      "name_of_half_a_megabyte_around_many_keys",
      [] {
        std::string text = "[" + std::string(500'000, 'x') + "]\n";
        for (int i = 0; i < 20'000; ++i) text += "k" + std::to_string(i) + " = 1\n";
        return text;
      }(),
      "keys of at most 256 bytes");
  table.toml("of_two_megabytes", std::string(2 << 20, '#'), "at most 1048576 bytes");
}

void add_metrics(Table& table) {
  table.metrics("line_that_is_no_json", "iter 5", "line 4: expected JSON");
  table.metrics("line_empty", "", "line 4: expected JSON");
  table.metrics("line_that_is_a_list", "[5]", "an object with an \"iter\"");
  table.metrics("without_iter", "{\"loss\":1}", "an object with an \"iter\"");
  table.metrics("iter_fractional", "{\"iter\":1.5}", "an object with an \"iter\"");
  table.metrics("iter_of_2_to_the_63", "{\"iter\":9223372036854775808}", "with an \"iter\"");
  table.metrics("key_twice", "{\"iter\":1,\"iter\":2}", "'iter' twice");
  table.metrics("nested_too_deep", "{\"iter\":1,\"a\":" + std::string(1000, '['), "64 levels");
  table.metrics("watch_without_layers", "{\"iter\":1,\"watch\":{}}", "a \"layers\"");
  table.metrics("watch_that_is_a_number", "{\"iter\":1,\"watch\":1}", "a \"layers\"");
  table.metrics("non_finite_without_stage", "{\"iter\":1,\"non_finite\":{\"pass\":\"forward\"}}",
                "a \"stage\"");
  table.metrics(
      "non_finite_in_layer_1e300",
      "{\"iter\":1,\"non_finite\":{\"pass\":\"forward\",\"stage\":\"x\",\"value\":\"inf\","
      "\"layer\":1e300}}",
      "a \"frames\"");
}

}  // namespace

std::vector<HostileFile> text_files() {
  Table table;
  add_toml(table);
  add_metrics(table);
  return table.take();
}

}  // namespace prenorm::hostile
