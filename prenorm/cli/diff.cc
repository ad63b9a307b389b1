#include "prenorm/cli/diff.h"

#include <array>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/common.h"
#include "prenorm/study/diff.h"

namespace prenorm::cli {
namespace {

std::string_view kind_name(TensorDifference::Kind kind) {
  static constexpr std::array kNames = {"only in the first", "only in the second", "shape", "dtype",
                                        "values"};
  return kNames.at(static_cast<std::size_t>(kind));
}

class Diff : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Input");
    table.texts("model", paths_, "PATH", "two model folders or files of tensors")
        .short_name('m')
        .from_positionals();
    table.real("tolerance", tolerance_, {.min = 0.0},
               "numbers that are at most so far apart are the same");
    table.group("Output");
    common_.declare_output(table, "print one JSON object");
  }

  int run(const OptionTable&, const Streams& streams) override {
    if (paths_.size() != 2) {
      throw ConfigError("-m: expected two model folders or files, found " +
                        std::to_string(paths_.size()));
    }
    const Difference found = diff(paths_[0], paths_[1], tolerance_);
    for (const std::string& warning : found.warnings) streams.log.print("warning: {}\n", warning);
    if (common_.json) {
      print_json(found, streams.out);
    } else {
      print(found, streams.out);
    }
    streams.out.flush();
    return found.same() ? kDone : kDiffers;
  }

 private:
  static void print(const Difference& found, Output& out) {
    for (const TensorDifference& t : found.tensors) {
      out.print("{}: {}", printable(t.name), kind_name(t.kind));
      if (!t.first.empty()) out.print(" {} and {}", printable(t.first), printable(t.second));
      if (t.differing > 0) {
        out.print(", {} numbers differ, at most by {:.3g} (relative {:.3g})", t.differing,
                  t.max_absolute, t.max_relative);
      }
      if (t.nans_first + t.nans_second > 0) {
        out.print(", {} and {} NaN", t.nans_first, t.nans_second);
      }
      out.write("\n");
    }
    if (!found.head.empty()) out.print("head: {}\n", found.head);
    for (const ConfigDifference& c : found.config) {
      out.print("config {}: {} and {}\n", printable(c.key), printable(c.first),
                printable(c.second));
    }
    if (found.same()) out.print("same: {} tensors\n", found.compared);
  }

  static void print_json(const Difference& found, Output& out) {
    Json tensors = Json::array(), config = Json::array();
    for (const TensorDifference& t : found.tensors) {
      Json row = {{"name", to_valid_utf8(t.name)}, {"kind", kind_name(t.kind)}};
      if (!t.first.empty()) {
        row["first"] = t.first;
        row["second"] = t.second;
      }
      row["differing"] = t.differing;
      row["max_abs"] = t.max_absolute;
      row["max_rel"] = t.max_relative;
      row["nan"] = {t.nans_first, t.nans_second};
      tensors.push_back(std::move(row));
    }
    for (const ConfigDifference& c : found.config) {
      config.push_back({{"key", c.key}, {"first", c.first}, {"second", c.second}});
    }
    out.write(dump_json({{"same", found.same()},
                         {"compared", found.compared},
                         {"tensors", std::move(tensors)},
                         {"head", found.head.empty() ? Json() : Json(found.head)},
                         {"config", std::move(config)}}));
  }

  std::vector<std::string> paths_;
  double tolerance_ = 0.0;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_diff() { return std::make_unique<Diff>(); }

}  // namespace prenorm::cli
