#include "prenorm/cli/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/common.h"
#include "prenorm/study/check.h"

namespace prenorm::cli {
namespace {

class Check : public Verb {
 public:
  explicit Check(CheckSeams seams) { options_.seams = std::move(seams); }

  void declare(OptionTable& table) override {
    table.group("Input");
    table.texts("model", folders_, "DIR", "model folder").short_name('m').from_positionals();
    table.seed("seed", options_.seed, "of the tokens and directions that are tried");
    common_.declare_machine(table);
    table.group("Output");
    common_.declare_output(table, "print one JSON object");
  }

  int run(const OptionTable&, const Streams& streams) override {
    if (folders_.size() != 1) {
      throw ConfigError("-m: expected one model folder, found " + std::to_string(folders_.size()));
    }
    const std::string& folder = folders_.front();
    const Runtime run(common_.runtime());
    const LoadedModel loaded = load_model(run, folder, TokenizerUse::kUnread);
    std::vector<Property> found;
    {
      StatusLine status(streams.log);
      options_.on_stage = [&](std::string_view stage) {
        status.show_after(std::chrono::seconds(1), [&] { return fmt::format("check: {}", stage); });
      };
      found = check_model(run, *loaded.model, options_);
    }
    if (common_.json) {
      streams.out.write(dump_json(to_json(folder, found)));
    } else {
      print(found, streams.out);
    }
    streams.out.flush();
    return all_passed(found) ? kDone : kDiffers;
  }

 private:
  static void print(const std::vector<Property>& found, Output& out) {
    for (const Property& p : found) {
      out.print("{}  {:<16}  {:<8.2g} bound {:<8.2g}  {} ({}, {}{})\n",
                p.passed() ? "pass" : "FAIL", p.name, p.measured, p.bound, p.claim, p.measure,
                p.scope, p.vacuous ? ": this proves nothing" : "");
    }
    const auto failed = std::ranges::count_if(found, [](const Property& p) { return !p.passed(); });
    if (failed == 0) {
      out.print("All {} properties hold.\n", found.size());
    } else {
      out.print("{} of {} properties fail.\n", failed, found.size());
    }
  }

  static Json to_json(const std::string& folder, const std::vector<Property>& found) {
    Json properties = Json::array();
    for (const Property& p : found) {
      properties.push_back({{"name", p.name},
                            {"passed", p.passed()},
                            {"claim", p.claim},
                            {"measure", p.measure},
                            {"measured", std::isfinite(p.measured) ? Json(p.measured) : Json()},
                            {"bound", p.bound},
                            {"scope", p.scope},
                            {"vacuous", p.vacuous}});
    }
    return {{"model", to_valid_utf8(folder)},
            {"passed", all_passed(found)},
            {"properties", std::move(properties)}};
  }

  std::vector<std::string> folders_;
  CheckOptions options_;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_check() { return make_check(CheckSeams()); }
std::unique_ptr<Verb> make_check(CheckSeams seams) {
  return std::make_unique<Check>(std::move(seams));
}

}  // namespace prenorm::cli
