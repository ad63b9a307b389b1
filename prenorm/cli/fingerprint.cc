#include "prenorm/cli/fingerprint.h"

#include "prenorm/base/json.h"
#include "prenorm/cli/common.h"
#include "prenorm/kernels/isa.h"
#include "prenorm/study/fingerprint.h"

namespace prenorm::cli {
namespace {

class FingerprintVerb : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Machine");
    table.integer("threads", threads_, {0, 4096}, "threads; 0: as many as this process may use");
    table.text("isa", isa_, "NAME", "avx2, avx512, neon, or all that this machine runs");
    table.group("Output");
    table.flag("record", record_, "print the hashes in the form of the record in the source");
    common_.declare_output(table, "print one JSON object an instruction set: isa, hashes, differs");
  }

  int run(const OptionTable&, const Streams& streams) override {
    std::vector<Isa> isas(supported_isas().begin(), supported_isas().end());
    if (isa_ != "all") isas = {isa_from_name(isa_)};
    if (isas.empty()) best_isa();  // throws
    bool all_equal = true;
    for (const Isa isa : isas) {
      const Runtime run({.threads = threads_, .isa = isa_name(isa)});
      const std::vector<Fingerprint> found = compute_fingerprints(run);
      const auto first = first_difference(found);
      all_equal &= !first.has_value();
      if (record_) {
        for (const Fingerprint& f : found) {
          streams.out.print("Fingerprint{{\"{}\", 0x{:016x}}},\n", f.name, f.hash);
        }
        return kDone;
      }
      if (common_.json) {
        print_json(isa, found, first, streams.out);
      } else {
        print(isa, run.threads(), found, first, streams.out);
      }
    }
    return all_equal ? kDone : kDiffers;
  }

 private:
  static void print(Isa isa, int threads, const std::vector<Fingerprint>& found,
                    std::optional<std::size_t> first, Output& out) {
    out.print("{}, {} thread{}\n", isa_name(isa), threads, threads == 1 ? "" : "s");
    const auto recorded = recorded_fingerprints();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool same = i < recorded.size() && found[i] == recorded[i];
      out.print("  {:<26} {:016x}  {}\n", found[i].name, found[i].hash,
                same ? "as recorded" : "DIFFERS");
    }
    if (first && *first < found.size()) {
      out.print("The first that differs is '{}'.\n", found[*first].name);
    } else if (!first) {
      out.print("All {} are as recorded.\n", found.size());
    }
  }

  static void print_json(Isa isa, const std::vector<Fingerprint>& found,
                         std::optional<std::size_t> first, Output& out) {
    Json hashes = Json::object();
    for (const Fingerprint& f : found) hashes[std::string(f.name)] = fmt::format("{:016x}", f.hash);
    const bool named = first && *first < found.size();
    out.write(dump_json_compact({{"isa", isa_name(isa)},
                                 {"hashes", hashes},
                                 {"differs", named ? Json(found[*first].name) : Json(nullptr)}}) +
              "\n");
  }

  int threads_ = 0;
  std::string isa_ = "all";
  bool record_ = false;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_fingerprint() { return std::make_unique<FingerprintVerb>(); }

}  // namespace prenorm::cli
