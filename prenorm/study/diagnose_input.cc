#include "prenorm/study/diagnose_input.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/suggest.h"
#include "prenorm/base/utf8.h"
#include "prenorm/study/apply_inputs.h"

namespace prenorm {
namespace {

using reference::Numbers;

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  const auto it = std::ranges::min_element(
      known, {}, [&](const std::string& other) { return edit_distance(name, other); });
  return it == known.end() ? "" : *it;
}

class Reader {
 public:
  Reader(const DiagnoseModel& model, const TensorFile& input, const TensorFile& theirs,
         NameLayout layout)
      : model_(model), input_(input), theirs_(theirs), layout_(layout), stages_(model.layers()) {}

  DiagnoseInput read() {
    read_input();
    choose_columns();
    for (const Tensor& t : theirs_.tensors()) read_stage(t);
    join_parts();
    auto& theirs = out_.problem.theirs;
    if (theirs.empty()) {
      throw FormatError(printable(theirs_.name()) +
                        ": expected logits or stages of the model, found none of them");
    }
    out_.logits_only = theirs.size() == 1 && theirs.begin()->first >= output_slot();
    out_.numbers = representable(7)    ? Numbers::kBfloat16
                   : representable(10) ? Numbers::kFloat16
                                       : Numbers::kFloat32;
    return std::move(out_);
  }

 private:
  // The slot of what comes out of the model.
  Index output_slot() const {
    if (model_.has_head) return stages_.logits();
    return model_.has_final_norm ? stages_.final_norm()
                                 : stages_.of(model_.layers() - 1, Stage::kBlock);
  }

  [[noreturn]] static void refuse_shape(const TensorFile& file, const Tensor& t,
                                        const std::string& expected) {
    file.refuse(t, expected, printable(shape_text(t.shape)));
  }

  void read_input() {
    const ApplyInputs in(input_, {"input_ids", "input"});
    const Tensor* ids = in.find("input_ids");
    const Tensor* embedded = in.find("input");
    if (ids != nullptr && embedded != nullptr) {
      input_.refuse(*embedded, "input_ids or input", "both");
    }
    if (ids == nullptr || !model_.has_embedding) return read_embedded(in.require("input"));
    DiagnoseProblem& p = out_.problem;
    const std::vector<Index>& shape = ids->shape;
    if ((shape.size() != 1 && shape.size() != 2) || ids->size() == 0) {
      refuse_shape(input_, *ids, "[B, T] or [T] with at least one token");
    }
    p.time = shape.back();
    p.batch = ids->size() / p.time;
    const auto& embedding = model_.parameters.embedding;
    if (p.time > embedding.wpe.rows()) {
      refuse_shape(
          input_, *ids,
          "at most " + std::to_string(embedding.wpe.rows()) + " tokens, the model's context");
    }
    p.tokens = in.ids(*ids, embedding.wte.rows());
  }

  void read_embedded(const Tensor& t) {
    const std::vector<Index>& shape = t.shape;
    if ((shape.size() != 2 && shape.size() != 3) || t.size() == 0 ||
        shape.back() != model_.width()) {
      refuse_shape(input_, t, "[B, T, " + std::to_string(model_.width()) + "]");
    }
    DiagnoseProblem& p = out_.problem;
    p.time = shape[shape.size() - 2];
    p.batch = t.size() / (p.time * shape.back());
    p.embedded = Values({p.rows(), shape.back()}, finite(input_, t));
  }

  static std::vector<double> finite(const TensorFile& file, const Tensor& t) {
    std::vector<double> values = file.doubles(t);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      file.refuse(
          t, "finite numbers",
          (std::isnan(values[i]) ? "NaN at element " : "infinity at element ") + std::to_string(i));
    }
    return values;
  }

  // Few enough that hypotheses are quick, spread over the vocabulary.
  void choose_columns() {
    constexpr Index kMost = 512;
    const Index vocabulary = model_.vocabulary();
    const Index count = vocabulary <= 2 * kMost ? vocabulary : kMost;
    for (Index i = 0; i < count; ++i) {
      out_.problem.logit_columns.push_back(i * vocabulary / count);
    }
  }

  DumpedStage find(const Tensor& t) const {
    if (!model_.has_head && t.name == "output") return {.slot = output_slot()};
    if (const auto found = stages_.find(t.name, layout_)) return *found;
    if (!model_.has_head && model_.layers() == 1) {  // "ln_1" of a block that stands alone
      if (const auto found = stages_.find("transformer.h.0." + t.name, layout_)) return *found;
    }
    std::vector<std::string> names = stages_.names(layout_);
    if (!model_.has_head) names.push_back("output");
    const std::string near = nearest(t.name, names);
    theirs_.refuse(t, "a stage of a model with " + std::to_string(model_.layers()) + " layers",
                   "an unknown name (the nearest is '" + near + "')");
  }

  Index columns(Index slot) const {
    if (slot == stages_.logits()) return model_.vocabulary();
    const auto stage = stages_.stage(slot);
    if (stage == Stage::kCAttn) return 3 * model_.width();
    if (stage == Stage::kFc || stage == Stage::kAct) return model_.inner();
    return model_.width();
  }

  void check_shape(const Tensor& t, Index width) const {
    const DiagnoseProblem& p = out_.problem;
    std::vector<Index> shape = t.shape;
    // Heads may be an axis of their own, [B, T, H, D].
    if (shape.size() == 4 && shape[2] == model_.settings.n_head && shape[2] * shape[3] == width) {
      shape = {shape[0], shape[1], width};
    }
    const bool whole = shape == std::vector<Index>{p.batch, p.time, width};
    const bool one = p.batch == 1 && shape == std::vector<Index>{p.time, width};
    if (whole || one) return;
    std::string expected = shape_text(std::vector<Index>{p.batch, p.time, width});
    if (shape == std::vector<Index>{p.batch, width, p.time} ||
        shape == std::vector<Index>{p.time, p.batch, width}) {
      expected += " (this looks transposed)";
    }
    refuse_shape(theirs_, t, expected);
  }

  void read_stage(const Tensor& t) {
    const DumpedStage stage = find(t);
    if (stage.ignored || (stage.slot == stages_.logits() && !model_.has_head)) {
      out_.ignored.push_back(t.name);
      return;
    }
    const Index width = columns(stage.slot) / (stage.part >= 0 ? 3 : 1);
    check_shape(t, width);
    Values values({out_.problem.rows(), width}, finite(theirs_, t));
    if (stage.part >= 0) {
      parts_[stage.slot][static_cast<std::size_t>(stage.part)] = std::move(values);
      return;
    }
    if (out_.problem.has(stage.slot)) {  // the same under another module's name
      out_.ignored.push_back(t.name);
      return;
    }
    if (stage.slot == stages_.logits()) {
      out_.logits = reference::cast<float>(values);
      values = in_columns(values);
    }
    out_.problem.theirs[stage.slot] = std::make_shared<const Values>(std::move(values));
  }

  Values in_columns(const Values& logits) const {
    const auto& columns = out_.problem.logit_columns;
    Values out({logits.rows(), static_cast<Index>(columns.size())});
    for (Index n = 0; n < out.rows(); ++n) {
      for (Index i = 0; i < out.columns(); ++i) {
        out(n, i) = logits(n, columns[static_cast<std::size_t>(i)]);
      }
    }
    return out;
  }

  // q, k and v side by side, where all three are there.
  void join_parts() {
    for (const auto& [slot, parts] : parts_) {
      const bool all = !parts[0].absent() && !parts[1].absent() && !parts[2].absent();
      if (!all || out_.problem.has(slot)) {
        out_.ignored.push_back(stages_.name(slot) + " (a part of it)");
        continue;
      }
      const Index width = parts[0].columns();
      Values whole({parts[0].rows(), 3 * width});
      for (Index n = 0; n < whole.rows(); ++n) {
        for (Index part = 0; part < 3; ++part) {
          std::copy_n(parts[static_cast<std::size_t>(part)].row(n), width,
                      whole.row(n) + part * width);
        }
      }
      out_.problem.theirs[slot] = std::make_shared<const Values>(std::move(whole));
    }
  }

  // Whether all numbers fit in so many bits of fraction (and, of half floats, their range).
  bool representable(int bits) const {
    const Numbers numbers = bits == 7 ? Numbers::kBfloat16 : Numbers::kFloat16;
    for (const auto& [slot, values] : out_.problem.theirs) {
      for (const double x : *values) {
        if (reference::round_to(x, numbers) != x) return false;
      }
    }
    return true;
  }

  const DiagnoseModel& model_;
  const TensorFile &input_, &theirs_;
  NameLayout layout_;
  StageList stages_;
  std::map<Index, std::array<Values, 3>> parts_;
  DiagnoseInput out_;
};

}  // namespace

DiagnoseInput read_diagnose_input(const DiagnoseModel& model, const TensorFile& input,
                                  const TensorFile& theirs, NameLayout layout) {
  return Reader(model, input, theirs, layout).read();
}

}  // namespace prenorm
