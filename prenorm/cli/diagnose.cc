#include "prenorm/cli/diagnose.h"

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#endif

#include <cstdint>
#include <cstdlib>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/block_flags.h"
#include "prenorm/cli/common.h"
#include "prenorm/formats/tensor_file.h"
#include "prenorm/report/diagnosis_report.h"
#include "prenorm/study/diagnose.h"
#include "prenorm/study/diagnose_probe.h"

namespace prenorm::cli {
namespace {

// A replay allocates and frees some megabytes for each layer, which glibc would return to the
// system and ask for again: a fifth of the time. All threads share one heap, which begins with huge
// pages.
void keep_memory() {
#ifdef __GLIBC__
  constexpr int kBytes = 1 << 30;
  constexpr std::uintptr_t kHeap = std::uintptr_t{256} << 20, kPage = 4096;
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, kBytes);
  void* heap = std::malloc(kHeap);
  if (heap == nullptr) return;
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(heap) + kPage - 1) / kPage * kPage;
  madvise(reinterpret_cast<void*>(first), kHeap - kPage, MADV_HUGEPAGE);  // a hint
  std::free(heap);
#endif
}

class Diagnose : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Input");
    table.text("model", model_, "DIR", "model folder or checkpoint: the right model")
        .short_name('m');
    table.text("input", input_, "FILE", "safetensors, npz or npy with input_ids, or input");
    table.text("theirs", theirs_, "FILE",
               "what the other code computed: logits, any stages, or output of a block");
    table.choice("layout", layout_,
                 {"auto", "hf", "nanogpt", "transformerlens", "llama.cpp", "prenorm"},
                 "whose names the stages have");
    table.group("A block instead of a model");
    table.text("params", params_, "FILE", "parameters of a block or stack, as of `prenorm apply`");
    block_.declare(table, options_);
    common_.declare_machine(table);
    table.group("Output");
    table.text("html", html_, "FILE", "write a report as one self-contained HTML page");
    table.flag("emit-hook", emit_hook_, "print a PyTorch script that dumps the stages, and end");
    table.text("emit-probe", emit_probe_, "DIR",
               "write a small model and an input that show subtle mistakes, and end");
    common_.declare_output(table, "print one JSON object");
  }

  int run(const OptionTable& table, const Streams& streams) override {
    if (emit_hook_ || !emit_probe_.empty()) return emit(streams);
    check_options(table);
    keep_memory();
    const Runtime run(common_.runtime());
    const TensorFile input = read_tensors(input_), theirs = read_tensors(theirs_);
    const DiagnoseModel model = read_model(input);
    const NameLayout layout = *name_layout_from_name(layout_);
    const DiagnoseInput problem = read_diagnose_input(model, input, theirs, layout);
    const Diagnosis found = diagnose(run, model, problem, [&](const std::string& line) {
      streams.log.write("prenorm: " + line + "\n");
      streams.log.flush();
    });
    if (!html_.empty()) {
      const std::string& name = model_.empty() ? params_ : model_;
      write_file_durably(html_, diagnosis_html(found, printable(name)));
    }
    if (common_.json) {
      print_json(found, streams.out);
    } else {
      streams.out.write(diagnosis_text(found));
    }
    return found.status == DiagnosisStatus::kEqual ? kDone : kDiffers;
  }

 private:
  int emit(const Streams& streams) const {
    if (!emit_probe_.empty()) {
      write_diagnose_probe(emit_probe_);
      streams.log.write("prenorm: wrote a model and input.safetensors to " +
                        printable(emit_probe_) + "\n");
    }
    if (emit_hook_) streams.out.write(diagnose_hook());
    return kDone;
  }

  void check_options(const OptionTable& table) {
    if (model_.empty() == params_.empty()) {
      throw ConfigError(std::string("-m: expected a model folder, or --params, found ") +
                        (model_.empty() ? "neither" : "both"));
    }
    require_given(input_, "--input", "a safetensors, npz or npy file");
    require_given(theirs_, "--theirs", "a safetensors, npz or npy file");
    block_.read(table, options_);
    heads_given_ = table.given("heads");
  }

  DiagnoseModel read_model(const TensorFile& input) const {
    if (!model_.empty()) {
      SourceHints hints;
      if (heads_given_) hints.n_head = options_.heads;
      return read_diagnose_model(model_, hints);
    }
    const Tensor* x = input.find("input");
    if (x == nullptr || x->shape.empty()) {
      throw FormatError(printable(input.name()) +
                        ": expected a tensor 'input' [B, T, C], found none");
    }
    return diagnose_block_model(read_tensors(params_), options_, x->shape.back());
  }

  static Json value_of(const NamedMistake& m) {
    if (m.number) return *m.number;
    if (!m.text.empty()) return m.text;
    return Json();
  }

  static void print_json(const Diagnosis& found, Output& out) {
    Json mistakes = Json::array();
    for (const NamedMistake& m : found.mistakes) {
      Json row = {
          {"name", m.name}, {"where", m.where}, {"value", value_of(m)}, {"margin", m.margin}};
      if (!m.places.empty()) row["places"] = m.places;
      mistakes.push_back(std::move(row));
    }
    Json json = {
        {"status", std::string(diagnosis_status_name(found.status))},
        {"mistakes", std::move(mistakes)},
        {"first_divergence", found.first_divergence ? Json(*found.first_divergence) : Json()}};
    if (found.status == DiagnosisStatus::kAmbiguous) json["candidates"] = found.candidates;
    out.write(dump_json(json));
  }

  std::string model_, input_, theirs_, params_, html_, emit_probe_;
  bool emit_hook_ = false;
  std::string layout_ = "auto";
  BlockFlags block_;
  bool heads_given_ = false;
  ApplyOptions options_;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_diagnose() { return std::make_unique<Diagnose>(); }

}  // namespace prenorm::cli
