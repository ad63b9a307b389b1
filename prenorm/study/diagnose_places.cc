#include "prenorm/study/diagnose_places.h"

#include <algorithm>
#include <cmath>

namespace prenorm {
namespace {

constexpr std::string_view kBlock = "transformer.h.";

// x to the nearest number of so many digits.
double to_digits(double x, int digits) {
  if (x == 0.0) return 0.0;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(x))));
  return std::round(x * scale) / scale;
}

}  // namespace

bool same_mistake(const MistakeChoice& a, const MistakeChoice& b) {
  return a.name == b.name && a.text == b.text && (has_continuous_value(a) || a.number == b.number);
}

MistakeChoice moved_to_layer(MistakeChoice choice, Index layer) {
  if (!choice.where.starts_with(kBlock)) return choice;
  const std::size_t end = choice.where.find('.', kBlock.size());
  const std::string rest = end == std::string::npos ? "" : choice.where.substr(end);
  choice.where = std::string(kBlock) + std::to_string(layer) + rest;
  return choice;
}

std::optional<Index> changed_slot(const StageList& stages, const MistakeChoice& choice) {
  if (choice.where == "transformer.ln_f") return stages.final_norm();
  if (!choice.where.starts_with(kBlock) || choice.name.starts_with("structure.") ||
      choice.name == "norm.swapped-weights") {
    return std::nullopt;
  }
  const Index layer = std::stoll(choice.where.substr(kBlock.size()));
  const auto of = [&](Stage stage) { return stages.of(layer, stage); };
  if (choice.name.starts_with("norm.")) {
    return of(choice.where.ends_with("ln_2") ? Stage::kLn2 : Stage::kLn1);
  }
  if (choice.name.starts_with("activation.") || choice.name == "numbers.f16-gelu") {
    return of(Stage::kAct);
  }
  if (choice.text == "attn.c_attn") return of(Stage::kCAttn);
  if (choice.text == "attn.c_proj") return of(Stage::kAttnProj);
  if (choice.text == "mlp.c_fc") return of(Stage::kFc);
  if (choice.text == "mlp.c_proj") return of(Stage::kMlpProj);
  return of(Stage::kAttended);
}

bool may_change(const StageList& stages, const std::vector<MistakeChoice>& mistakes,
                std::span<const Index> slots, std::span<const Index> bad) {
  return std::ranges::any_of(mistakes, [&](const MistakeChoice& m) {
    const std::optional<Index> from = changed_slot(stages, m);
    if (!from) return true;
    const auto shows = [&](Index slot) {
      const auto next = std::ranges::lower_bound(slots, slot);
      return next != slots.end() && std::ranges::find(bad, *next) != bad.end();
    };
    // In both norms of a block.
    const bool both = m.name.starts_with("norm.") && *from < stages.final_norm() &&
                      !m.where.ends_with(".ln_1") && !m.where.ends_with(".ln_2");
    return shows(*from) || (both && shows(stages.of(*stages.layer(*from), Stage::kLn2)));
  });
}

std::string place_of(const MistakeChoice& choice) {
  if (choice.where.empty()) return "everywhere";
  if (choice.name.starts_with("attention.") || choice.name == "numbers.f16-cache") {
    return choice.where + ".attn";
  }
  if (choice.name.starts_with("activation.") || choice.name == "numbers.f16-gelu") {
    return choice.where + ".mlp.act";
  }
  return choice.text.empty() ? choice.where : choice.where + "." + choice.text;
}

std::optional<double> reported_number(const MistakeChoice& choice) {
  if (!choice.number) return std::nullopt;
  if (!has_continuous_value(choice)) return choice.number;
  // As short as it may be within what a fit leaves open.
  for (const int digits : {1, 2, 3}) {
    const double round = to_digits(*choice.number, digits);
    if (std::abs(round - *choice.number) <= 0.02 * std::abs(*choice.number)) return round;
  }
  return to_digits(*choice.number, 4);
}

std::string reported_text(const MistakeChoice& choice) {
  if (choice.name == "weights.transposed") return choice.text + ".weight";
  if (choice.name == "weights.no-bias") return choice.text + ".bias";
  return choice.name == "numbers.f16-gelu" ? "" : choice.text;
}

}  // namespace prenorm
