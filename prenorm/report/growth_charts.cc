#include "prenorm/report/growth_charts.h"

#include <fmt/format.h>

#include <algorithm>

namespace prenorm {
namespace {

// The colours of the four kinds of stack, by their order.
constexpr int kColors[] = {2, 4, 1, 3};
constexpr int kPreNorm = 1, kPostNorm = 3;

std::vector<std::pair<double, double>> by_depth(const std::vector<double>& sizes) {
  std::vector<std::pair<double, double>> points;
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    points.emplace_back(static_cast<double>(l), sizes[l]);
  }
  return points;
}

std::string ends_of(const std::vector<double>& sizes) {
  if (sizes.empty()) return "nothing";
  return fmt::format("{} to {}", short_number(sizes.front()), short_number(sizes.back()));
}

Chart chart_by_depth(const char* title, const char* y_label) {
  Chart chart;
  chart.title = title;
  chart.x_label = "layers passed";
  chart.y_label = y_label;
  chart.y_log = true;
  return chart;
}

int color_of(const ModelGrowth& model, std::size_t index) {
  if (index > 1) return kColors[1];
  return model.curve.name == "pre-norm" ? kPreNorm : kPostNorm;
}

// Faint lines at each step and their trend.
std::vector<std::pair<double, double>> smoothed(const std::vector<double>& values) {
  std::vector<std::pair<double, double>> out;
  const std::size_t reach = values.size() / 40;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t near = std::min({reach, i, values.size() - 1 - i});
    double sum = 0.0;
    for (std::size_t j = i - near; j <= i + near; ++j) sum += values[j];
    out.emplace_back(static_cast<double>(i + 1), sum / static_cast<double>(2 * near + 1));
  }
  return out;
}

Chart chart_of(GrowthQuantity quantity) {
  return quantity == GrowthQuantity::kForward
             ? chart_by_depth("The stream by depth", "size (RMS) of the stream")
             : chart_by_depth("The gradient by depth", "size (RMS) of the stream's gradient");
}

const std::vector<double>& sizes_of(const GrowthCurve& curve, GrowthQuantity quantity) {
  return quantity == GrowthQuantity::kForward ? curve.forward : curve.backward;
}

// A curve with a dot at each depth; told in the description by `name`, in the legend by `label`.
void add_curve(Chart& chart, const std::string& name, const std::string& label, int color,
               const std::vector<double>& sizes) {
  chart.series.push_back({.name = label, .color = color, .points = by_depth(sizes), .dots = true});
  chart.description += fmt::format("{}: {}. ", name, ends_of(sizes));
}

}  // namespace

Chart held_chart(const GrowthReport& report) {
  Chart chart = stacks_chart(report, GrowthQuantity::kForward);
  chart.title = "The same where a norm holds it";
  chart.y_log = false;
  chart.y_from_zero = true;
  chart.series.erase(chart.series.begin());
  chart.series.push_back({.name = "√(1 + l)",
                          .color = kPreNorm,
                          .points = by_depth(square_root_growth(report.stack.layers)),
                          .dashed = true});
  return chart;
}

Chart stacks_chart(const GrowthReport& report, GrowthQuantity quantity) {
  Chart chart = chart_of(quantity);
  for (std::size_t i = 0; i < report.stacks.size(); ++i) {
    const GrowthCurve& curve = report.stacks[i];
    add_curve(chart, curve.name, curve.name + ": " + curve.formula, kColors[i % 4],
              sizes_of(curve, quantity));
  }
  return chart;
}

Chart models_chart(const std::vector<ModelGrowth>& models, GrowthQuantity quantity) {
  Chart chart = chart_of(quantity);
  for (std::size_t i = 0; i < models.size(); ++i) {
    add_curve(chart, models[i].name, models[i].name, color_of(models[i], i),
              sizes_of(models[i].curve, quantity));
  }
  const bool forward = quantity == GrowthQuantity::kForward;
  for (std::size_t i = 0; forward && i < models.size(); ++i) {
    if (models[i].curve.name != "pre-norm") continue;  // post-norm blocks read the stream itself
    chart.series.push_back({.name = models[i].name + ": what attention reads, LN1(x)",
                            .color = color_of(models[i], i),
                            .points = by_depth(models[i].curve.branch),
                            .dashed = true});
  }
  return chart;
}

Chart parameters_chart(const std::vector<ModelGrowth>& models) {
  Chart chart = chart_by_depth("The gradients of the blocks' parameters", "norm of the gradient");
  chart.x_label = "block";
  for (std::size_t i = 0; i < models.size(); ++i) {
    add_curve(chart, models[i].name, models[i].name, color_of(models[i], i),
              models[i].curve.parameters);
  }
  return chart;
}

Chart losses_chart(const StabilityReport& report, Index layers) {
  Chart chart;
  chart.title = fmt::format("Loss of {} layers", layers);
  chart.x_label = "step";
  chart.y_label = "loss, nats a token";
  std::size_t steps = 0;
  for (const StabilityRun& run : report.runs) {
    if (run.layers != layers) continue;
    const int color = run.norm == NormPlacement::kPre ? kPreNorm : kPostNorm;
    steps = std::max(steps, run.losses.size());
    chart.series.push_back(
        {.name = stability_name(run), .color = color, .points = smoothed(run.losses)});
    chart.description +=
        fmt::format("{}: {:.3f} at the end. ", stability_name(run), run.final_loss());
  }
  for (const StabilityRun& run : report.runs) {
    if (run.layers != layers) continue;
    Series faint{.name = "each step",
                 .color = run.norm == NormPlacement::kPre ? kPreNorm : kPostNorm,
                 .points = by_depth(run.losses),
                 .faint = true};
    for (auto& point : faint.points) point.first += 1.0;
    chart.series.push_back(std::move(faint));
  }
  const double entropy = report.unigram_entropy;
  if (steps > 0) {
    chart.series.push_back({.name = "the tokens' frequencies alone",
                            .color = 2,
                            .points = {{1.0, entropy}, {static_cast<double>(steps), entropy}},
                            .dashed = true});
  }
  return chart;
}

std::vector<Index> shown_depths(Index layers) {
  std::vector<Index> depths;
  for (Index l = 0; l < layers; l = l < 4 ? l + 1 : l * 2) depths.push_back(l);
  depths.push_back(layers);
  return depths;
}

}  // namespace prenorm
