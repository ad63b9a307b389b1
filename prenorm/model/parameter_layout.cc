#include "prenorm/model/parameter_layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/parameter_names.h"

namespace prenorm {
namespace {

using Values = reference::Tensor<double>;

// The size that most tensors agree on, or nothing where none tells one. A tie goes to the smaller.
std::optional<Index> majority(const std::map<Index, int>& votes) {
  const auto most = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; });
  if (most == votes.end()) return std::nullopt;
  return most->first;
}

// Columns [first, first + count) of a matrix.
Values columns_of(const Values& m, Index first, Index count) {
  Values out({m.rows(), count});
  for (Index r = 0; r < m.rows(); ++r) std::copy_n(m.row(r) + first, count, out.row(r));
  return out;
}

void put_columns(const Values& from, Index first, Values& to) {
  for (Index r = 0; r < from.rows(); ++r) {
    std::copy_n(from.row(r), from.columns(), to.row(r) + first);
  }
}

}  // namespace

// What the constructor works with: the file's names, one style and one prefix.
class ParameterLayout::Recognizer {
 public:
  Recognizer(LayerKind kind, const TensorFile& file) : kind_(kind), file_(file) { choose(); }

  struct Match {
    const Tensor* tensor;
    const ParameterName* name;
    Index layer;
  };

  // Every tensor of the file with its row; refuses one that has none.
  std::vector<Match> matches() const {
    std::vector<Match> found;
    for (const Tensor& t : file_.tensors()) {
      if (const auto match = recognize(style_, prefix_, t)) {
        if (!match->name->parameter.empty()) found.push_back(*match);
        continue;
      }
      throw FormatError(printable(file_.name()) + ": tensor '" + printable(t.name) +
                        "': expected names of " + std::string(layer_kind_name(kind_)) +
                        " parameters, found an unexpected tensor");
    }
    return found;
  }

  // What may be left out is left out together: the biases of all matrices, those of all norms, the
  // weights of all norms. One alone has been lost.
  void check_groups(const std::vector<Match>& found, Index layers) const {
    enum Group { kMatrixBias, kNormWeight, kNormBias, kNone };
    const auto group_of = [](const ParameterName& name) {
      if (name.required || name.parameter.empty() || name.parameter.starts_with("ln_f.")) {
        return kNone;
      }
      const bool norm = name.parameter.starts_with("ln_");
      if (name.parameter.ends_with(".bias")) return norm ? kNormBias : kMatrixBias;
      return norm ? kNormWeight : kNone;
    };
    std::set<std::pair<Index, std::string_view>> there;
    std::set<Group> used;
    for (const Match& m : found) {
      there.insert({m.layer, m.name->name});
      used.insert(group_of(*m.name));
    }
    for (Index layer = 0; layer < std::max<Index>(1, layers); ++layer) {
      for (const ParameterName& name : names_of(style_)) {
        const Group group = group_of(name);
        if (group == kNone || !used.contains(group)) continue;
        if (there.contains({name.in_layer ? layer : -1, name.name})) continue;
        throw FormatError(printable(file_.name()) + ": expected a tensor '" +
                          full_name(name, layer) +
                          "' like the others of its kind, found none of this name");
      }
    }
  }

  // Refuses a layer of which something is missing, or is there twice in two forms.
  void check_complete(const std::vector<Match>& found, Index layers) const {
    std::map<std::pair<Index, std::string_view>, const Tensor*> by_name;
    for (const Match& m : found) by_name[{m.layer, m.name->name}] = m.tensor;
    const auto find = [&](const ParameterName& name, Index layer) -> const Tensor* {
      const auto it = by_name.find({name.in_layer ? layer : -1, name.name});
      return it == by_name.end() ? nullptr : it->second;
    };
    for (Index layer = 0; layer < std::max<Index>(1, layers); ++layer) {
      const ParameterName* packed = nullptr;
      const Tensor* part = nullptr;
      for (const ParameterName& name : names_of(style_)) {
        if (name.part >= 0 && find(name, layer) != nullptr) part = find(name, layer);
      }
      for (const ParameterName& name : names_of(style_)) {
        if (name.parts_instead) packed = &name;
        const bool needed = name.part >= 0 ? part != nullptr : name.required;
        if (find(name, layer) != nullptr || !needed || (name.parts_instead && part)) continue;
        throw FormatError(printable(file_.name()) + ": expected a tensor '" +
                          full_name(name, layer) + "', found none of this name");
      }
      if (part != nullptr && packed != nullptr && find(*packed, layer) != nullptr) {
        file_.refuse(*part, "no separate weight beside " + std::string(packed->name), "both");
      }
    }
  }

 private:
  std::span<const ParameterName> names_of(NameStyle style) const {
    return parameter_names(kind_, style);
  }

  std::string full_name(const ParameterName& name, Index layer) const {
    std::string path = prefix_;
    if (kind_ == LayerKind::kStack && name.in_layer) {
      path += std::string(layer_prefix(style_)) + std::to_string(layer) + ".";
    }
    return printable(path + std::string(name.name));
  }

  std::optional<Match> recognize(NameStyle style, std::string_view prefix, const Tensor& t) const {
    std::string_view rest = t.name;
    if (!rest.starts_with(prefix)) return std::nullopt;
    rest.remove_prefix(prefix.size());
    Index layer = -1;
    const std::string_view layers = layer_prefix(style);
    if (kind_ == LayerKind::kStack && rest.starts_with(layers)) {
      rest.remove_prefix(layers.size());
      const std::size_t dot = rest.find('.');
      if (dot == std::string_view::npos) return std::nullopt;
      const std::string_view digits = rest.substr(0, dot);
      constexpr Index kMostLayers = 1'000'000;
      std::from_chars(digits.data(), digits.data() + digits.size(), layer);
      // Plain digits: no sign, no leading zeros.
      if (layer < 0 || layer > kMostLayers || digits != std::to_string(layer)) return std::nullopt;
      rest.remove_prefix(dot + 1);
    }
    for (const ParameterName& name : names_of(style)) {
      const bool in_layer = kind_ == LayerKind::kStack && name.in_layer;
      if (name.name == rest && in_layer == (layer >= 0)) {
        return Match{&t, &name, kind_ == LayerKind::kStack || !name.in_layer ? layer : 0};
      }
    }
    return std::nullopt;
  }

  // The style and the prefix under which most names are known; first the shorter prefix.
  void choose() {
    constexpr std::size_t kMostPrefixes = 32;
    std::set<std::string> prefixes = {""};
    for (const Tensor& t : file_.tensors()) {
      for (std::size_t dot = t.name.find('.');
           dot != std::string::npos && prefixes.size() < kMostPrefixes;
           dot = t.name.find('.', dot + 1)) {
        prefixes.insert(t.name.substr(0, dot + 1));
      }
    }
    Index best = -1;
    for (const std::string& prefix : prefixes) {
      for (const NameStyle style : kNameStyles) {
        const Index known = std::ranges::count_if(file_.tensors(), [&](const Tensor& t) {
          return recognize(style, prefix, t).has_value();
        });
        if (known <= best) continue;
        best = known;
        style_ = style;
        prefix_ = prefix;
      }
    }
  }

  LayerKind kind_;
  const TensorFile& file_;
  NameStyle style_ = NameStyle::kTorch;
  std::string prefix_;
};

namespace {

using Axes = std::array<ParameterAxis, 2>;

std::vector<Index> expected_shape(const Axes& axes, Index width, Index inner) {
  std::vector<Index> shape;
  for (const ParameterAxis axis : axes) {
    if (axis == ParameterAxis::kWidth) shape.push_back(width);
    if (axis == ParameterAxis::kThreeWidths) shape.push_back(3 * width);
    if (axis == ParameterAxis::kInner) shape.push_back(inner);
  }
  return shape;
}

std::size_t rank_of(const Axes& axes) {
  return static_cast<std::size_t>(
      std::ranges::count_if(axes, [](ParameterAxis a) { return a != ParameterAxis::kNone; }));
}

// Which sizes a tensor speaks for.
void vote(const Tensor& t, const Axes& axes, std::map<Index, int>& width,
          std::map<Index, int>& inner) {
  if (t.shape.size() != rank_of(axes)) return;
  for (std::size_t i = 0; i < t.shape.size(); ++i) {
    const Index d = t.shape[i];
    if (axes[i] == ParameterAxis::kWidth) ++width[d];
    if (axes[i] == ParameterAxis::kThreeWidths && d % 3 == 0) ++width[d / 3];
    if (axes[i] == ParameterAxis::kInner) ++inner[d];
  }
}

}  // namespace

ParameterLayout::ParameterLayout(LayerKind kind, const TensorFile& file, std::optional<Index> width)
    : file_(&file) {
  const Recognizer recognizer(kind, file);
  const std::vector<Recognizer::Match> found = recognizer.matches();
  for (const auto& match : found) layers_ = std::max(layers_, match.layer + 1);
  if (kind == LayerKind::kBlock || kind == LayerKind::kStack) layers_ = std::max<Index>(1, layers_);
  recognizer.check_complete(found, layers_);
  recognizer.check_groups(found, layers_);

  std::map<Index, int> widths, inners;
  for (const auto& match : found) vote(*match.tensor, match.name->axes, widths, inners);
  // A tensor alone against the input is believed: it was made with its layer.
  if (width && (widths.empty() || widths.contains(*width) || widths.size() > 1)) ++widths[*width];
  width_ = majority(widths);
  inner_ = majority(inners);
  for (const auto& match : found) {
    const Tensor& t = *match.tensor;
    const auto expected = expected_shape(match.name->axes, width_.value_or(0), inner_.value_or(0));
    const bool any = match.name->axes[0] == ParameterAxis::kAny;
    if (any ? t.shape.empty() : t.shape != expected) {
      file.refuse(t, any ? "at least one axis" : shape_text(expected),
                  printable(shape_text(t.shape)));
    }
    if (std::ranges::find(t.shape, 0) != t.shape.end()) {
      file.refuse(t, "sizes of at least 1", shape_text(t.shape));
    }
    std::string parameter(match.name->parameter);
    if (match.layer >= 0 && match.name->in_layer) {
      parameter = "h." + std::to_string(match.layer) + "." + parameter;
    }
    tensors_.push_back({&t, std::move(parameter), match.name->transposed, match.name->part});
  }
  if (kind == LayerKind::kLayerNorm && !tensors_.empty()) {
    const Tensor& first = *tensors_.front().tensor;
    const Tensor& last = *tensors_.back().tensor;
    if (first.shape != last.shape) {
      const Tensor& weight = first.name.ends_with("weight") ? first : last;
      file.refuse(&weight == &first ? last : first, shape_text(weight.shape) + ", as the weight",
                  printable(shape_text((&weight == &first ? last : first).shape)));
    }
    width_ = first.size();
  }
}

bool ParameterLayout::has_final_norm() const {
  return std::ranges::any_of(
      tensors_, [](const LaidOutTensor& t) { return t.parameter.starts_with("ln_f."); });
}

ParameterValues ParameterLayout::read() const {
  ParameterValues out;
  for (const LaidOutTensor& place : tensors_) {
    const Tensor& t = *place.tensor;
    const bool matrix = t.shape.size() == 2 && !place.parameter.starts_with("ln.");
    Values values(matrix ? t.shape : std::vector<Index>{t.size()}, file_->doubles(t));
    if (place.transposed) values = reference::transposed(values);
    if (place.part < 0) {
      out[place.parameter] = std::move(values);
      continue;
    }
    Values& whole = out[place.parameter];
    const Index third = values.columns();
    if (whole.absent()) whole = Values({values.rows(), 3 * third});
    put_columns(values, place.part * third, whole);
  }
  return out;
}

Values ParameterLayout::take(const LaidOutTensor& place, const ParameterValues& values) const {
  Values found = values.at(place.parameter);
  if (place.part >= 0) {
    const Index third = found.columns() / 3;
    found = columns_of(found, place.part * third, third);
  }
  if (place.transposed) found = reference::transposed(found);
  return found.reshaped(place.tensor->shape);
}

}  // namespace prenorm
