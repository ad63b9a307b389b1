#include "prenorm/report/growth_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "prenorm/report/growth_charts.h"
#include "prenorm/report/html.h"
#include "prenorm/report/text_chart.h"

namespace prenorm {
namespace {

std::string size_text(double size) { return fmt::format("{:.3g}", size); }

std::vector<Index> depths_of(const std::vector<StabilityRun>& runs) {
  std::vector<Index> depths;
  for (const StabilityRun& run : runs) {
    if (std::ranges::find(depths, run.layers) == depths.end()) depths.push_back(run.layers);
  }
  return depths;
}

std::string recipe_text(const StabilityReport& training) {
  const TrainOptions& r = training.recipe;
  return fmt::format(
      "AdamW, learning rate {:g}, {}, clipping at {:g}, {} steps of {} sequences, seed {}; on {}",
      r.learning_rate,
      r.warmup_steps() == 0 ? std::string("no warm-up")
                            : fmt::format("{} steps of warm-up", r.warmup_steps()),
      r.grad_clip, r.max_iters, r.sequences_per_step(), r.seed, training.text);
}

std::vector<ModelGrowth> of_checkpoint(const GrowthReport& report) {
  if (!report.checkpoint) return {};
  return {*report.checkpoint};
}

std::string lead_of(const GrowthReport& report) {
  return fmt::format(
      "{} layer{} of width {}; f is one random matrix, of gain {:g} where nothing else holds the "
      "stream and of gain 1 beside a residual connection.",
      report.stack.layers, report.stack.layers == 1 ? "" : "s", report.stack.width,
      report.stack.gain);
}

// --- For the terminal ----------------------------------------------------------------------------

std::string number_rows(const std::vector<std::pair<std::string, std::vector<double>>>& rows,
                        Index layers, const char* places) {
  const std::vector<Index> depths = shown_depths(layers);
  std::string out = fmt::format("{:<24}", places);
  for (const Index l : depths) out += fmt::format("{:>9}", l);
  out += "\n";
  for (const auto& [name, sizes] : rows) {
    out += fmt::format("{:<24}", name);
    for (const Index l : depths) {
      const auto at = static_cast<std::size_t>(l);
      out += fmt::format("{:>9}", at < sizes.size() ? size_text(sizes[at]) : "");
    }
    out += "\n";
  }
  return out;
}

std::string stacks_text(const GrowthReport& report) {
  std::vector<std::pair<std::string, std::vector<double>>> forward, backward;
  for (const GrowthCurve& c : report.stacks) {
    forward.emplace_back(c.name, c.forward);
    backward.emplace_back(c.name, c.backward);
  }
  forward.insert(forward.begin() + 3, {"  what f reads there", report.stacks[2].branch});
  forward.emplace_back("√(1 + l)  ", square_root_growth(report.stack.layers));
  std::string out = "STACKS AT INITIALISATION\n" + lead_of(report) + "\n\nsize of the stream\n";
  out += number_rows(forward, report.stack.layers, "after layer");
  out += "\nsize of its gradient\n" + number_rows(backward, report.stack.layers, "before layer");
  out += "\n" + text_chart(stacks_chart(report, GrowthQuantity::kForward)) + "\n";
  out += text_chart(held_chart(report)) + "\n";
  for (const GrowthCurve& c : report.stacks) {
    out += fmt::format("{} ({}). {}\n", c.name, c.formula, c.meaning);
  }
  return out;
}

std::string models_text(const char* title, const std::vector<ModelGrowth>& models,
                        const std::string& tokens) {
  if (models.empty()) return "";
  const auto layers = static_cast<Index>(models.front().curve.parameters.size());
  std::vector<std::pair<std::string, std::vector<double>>> forward, backward, parameters;
  for (const ModelGrowth& m : models) {
    forward.emplace_back(m.name, m.curve.forward);
    forward.emplace_back("  what attention reads", m.curve.branch);
    backward.emplace_back(m.name, m.curve.backward);
    parameters.emplace_back(m.name, m.curve.parameters);
  }
  std::string out = fmt::format("\n{}\nOn {}.\n\nsize of the stream\n", title, tokens);
  out += number_rows(forward, layers, "after block");
  out += "\nsize of its gradient\n" + number_rows(backward, layers, "before block");
  out += "\nnorm of the gradient of the parameters\n";
  out += number_rows(parameters, layers - 1, "in block");
  out += "\n" + text_chart(models_chart(models, GrowthQuantity::kForward)) + "\n";
  for (const ModelGrowth& m : models) out += fmt::format("{}. {}\n", m.name, m.curve.meaning);
  return out;
}

std::string training_text(const StabilityReport& training) {
  std::string out = "\nTRAINING\n" + recipe_text(training) + "\n";
  if (training.interrupted) out += "interrupted: not all of it was measured\n";
  out += fmt::format("\n{:<24}{:>9}{:>9}{:>9}{:>9}  {}\n", "", "first", "highest", "end", "skipped",
                     "");
  for (const StabilityRun& run : training.runs) {
    out += fmt::format("{:<24}{:>9.3f}{:>9.3f}{:>9.3f}{:>9}  {}\n", stability_name(run),
                       run.first_loss(), run.highest_loss(), run.final_loss(), run.skipped_steps,
                       stability_verdict(run, training.unigram_entropy));
  }
  out += fmt::format("{:<24}{:>27.3f}\n", "tokens' frequencies", training.unigram_entropy);
  for (const Index layers : depths_of(training.runs)) {
    Chart chart = losses_chart(training, layers);
    std::erase_if(chart.series, [](const Series& series) { return series.faint; });
    out += "\n" + text_chart(chart);
  }
  return out;
}

// --- For the page --------------------------------------------------------------------------------

std::string legend_of(const Chart& chart) {
  std::string out = "<ul class=\"legend\">";
  for (const Series& series : chart.series) {
    if (series.faint) continue;
    out += fmt::format("<li><i class=\"k{}{}\"></i>{}</li>", series.color,
                       series.dashed ? " dashed" : "", html_escape(series.name));
  }
  return out + "</ul>\n";
}

std::string figure_of(const Chart& chart) {
  return "<h2>" + html_escape(chart.title) + "</h2>\n" + legend_of(chart) +
         "<figure class=\"wide\">\n" + line_chart(chart) + "</figure>\n";
}

std::string card(const std::string& inner) {
  return "<section class=\"card\">\n" + inner + "</section>\n";
}

std::string heading(const char* title, const std::string& lead) {
  return "<h2 class=\"part\">" + html_escape(title) + "</h2>\n<p class=\"lead\">" +
         html_escape(lead) + "</p>\n";
}

std::string meanings(const TextRows& rows) {
  return card(html_table("What each curve means", rows));
}

std::string models_html(const char* title, const std::vector<ModelGrowth>& models,
                        const std::string& tokens) {
  if (models.empty()) return "";
  std::string out = heading(title, "On " + tokens + ".");
  out += card(figure_of(models_chart(models, GrowthQuantity::kForward)));
  out += card(figure_of(models_chart(models, GrowthQuantity::kBackward)));
  out += card(figure_of(parameters_chart(models)));
  TextRows rows;
  for (const ModelGrowth& m : models) rows.emplace_back(m.name, m.curve.meaning);
  return out + meanings(rows);
}

std::string training_html(const StabilityReport& training) {
  std::string out = heading("Training", recipe_text(training) + ".");
  if (training.interrupted) {
    out += "<p class=\"card notice\">Interrupted: not all of it was measured.</p>\n";
  }
  TextRows rows;
  for (const StabilityRun& run : training.runs) {
    rows.emplace_back(
        stability_name(run),
        fmt::format("{}; loss {:.3f} at first, {:.3f} at its highest, {:.3f} at the "
                    "end, {} steps skipped",
                    stability_verdict(run, training.unigram_entropy), run.first_loss(),
                    run.highest_loss(), run.final_loss(), run.skipped_steps));
  }
  for (const Index layers : depths_of(training.runs)) {
    out += card(figure_of(losses_chart(training, layers)));
  }
  return out + card(html_table("What became of them", rows));
}

}  // namespace

std::string stability_name(const StabilityRun& run) {
  return fmt::format("{} layers, {}-norm", run.layers, norm_placement_name(run.norm));
}

std::string stability_verdict(const StabilityRun& run, double unigram_entropy) {
  const double end = run.final_loss();
  if (run.losses.empty()) return "not trained";
  if (!std::isfinite(end) || run.skipped_steps > 0) return "breaks down: numbers not finite";
  if (end > run.first_loss()) return "breaks down: ends above its first loss";
  // Within a twentieth: the frequencies of a sample of steps are not those of the whole text.
  if (end >= 0.95 * unigram_entropy) return "stuck: knows no more than the tokens' frequencies";
  return "learns";
}

std::string growth_text(const GrowthReport& report) {
  std::string out = stacks_text(report);
  out += models_text("MODELS AT INITIALISATION", report.initial, report.tokens);
  out += models_text("CHECKPOINT", of_checkpoint(report), report.tokens);
  if (report.training) out += training_text(*report.training);
  return out;
}

std::string growth_html(const GrowthReport& report) {
  std::string body =
      "<h1>Growth by depth</h1>\n<p class=\"lead\">How large activations and "
      "gradients are after each layer, without norms, with them, and where they "
      "stand. Measured with prenorm.</p>\n";
  body += heading("Stacks at initialisation", lead_of(report));
  body += card(figure_of(stacks_chart(report, GrowthQuantity::kForward)));
  body += card(figure_of(held_chart(report)));
  body += card(figure_of(stacks_chart(report, GrowthQuantity::kBackward)));
  TextRows rows;
  for (const GrowthCurve& c : report.stacks) {
    rows.emplace_back(c.name + ", " + c.formula, c.meaning);
  }
  body += meanings(rows);
  body += models_html("Models at initialisation", report.initial, report.tokens);
  body += models_html("Checkpoint", of_checkpoint(report), report.tokens);
  if (report.training) body += training_html(*report.training);
  body += "<footer>Sizes are root mean squares over all numbers of all tokens.</footer>\n";
  return html_page("Growth by depth", body);
}

}  // namespace prenorm
