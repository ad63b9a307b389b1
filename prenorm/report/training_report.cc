#include "prenorm/report/training_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "prenorm/report/html.h"
#include "prenorm/report/svg.h"
#include "prenorm/report/watch_report.h"
#include "prenorm/train/options_fields.h"

namespace prenorm {
namespace {

using Points = std::vector<std::pair<double, double>>;
using Field = std::optional<double> MetricsRow::*;

Points points_of(const std::vector<MetricsRow>& rows, Field field) {
  Points out;
  for (const MetricsRow& row : rows) {
    if (row.*field) out.emplace_back(static_cast<double>(row.iter), *(row.*field));
  }
  return out;
}

std::optional<double> last_of(const std::vector<MetricsRow>& rows, Field field) {
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if ((*row).*field) return (*row).*field;
  }
  return std::nullopt;
}

const MetricsRow* best_row(const std::vector<MetricsRow>& rows) {
  const MetricsRow* best = nullptr;
  for (const MetricsRow& row : rows) {
    if (row.val_loss && (best == nullptr || *row.val_loss < *best->val_loss)) best = &row;
  }
  return best;
}

// Each point's mean with its neighbours, about a fortieth of all to each side and as many on the
// left as on the right, so that the trend shows through the noise and does not lag behind it.
Points smoothed(const Points& points) {
  const std::size_t reach = points.size() / 40;
  Points out = points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t near = std::min({reach, i, points.size() - 1 - i});
    double sum = 0;
    for (std::size_t j = i - near; j <= i + near; ++j) sum += points[j].second;
    out[i].second = sum / static_cast<double>(2 * near + 1);
  }
  return out;
}

std::string grouped(Index value) {
  std::string out = fmt::format("{}", value);
  for (auto at = static_cast<std::ptrdiff_t>(out.size()) - 3; at > 0; at -= 3) {
    out.insert(static_cast<std::size_t>(at), ",");
  }
  return out;
}

std::string duration(double seconds) {
  const auto whole = static_cast<Index>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string loss_text(std::optional<double> loss) {
  return loss ? fmt::format("{:.4f}", *loss) : std::string("none");
}

std::string loss_section(const std::vector<MetricsRow>& rows) {
  const auto train = points_of(rows, &MetricsRow::loss),
             val = points_of(rows, &MetricsRow::val_loss);
  const auto final_train = last_of(rows, &MetricsRow::loss);
  const auto final_val = last_of(rows, &MetricsRow::val_loss);
  Chart chart;
  chart.title = "Loss by iteration";
  chart.description = fmt::format("Training loss ends at {}, validation loss at {}.",
                                  loss_text(final_train), loss_text(final_val));
  chart.x_label = "iteration";
  chart.y_label = "cross-entropy, nats a token";
  chart.width = 1000;
  chart.height = 400;
  chart.series.push_back({.name = "training, each line", .points = train, .faint = true});
  chart.series.push_back({.name = "training", .points = smoothed(train)});
  if (!val.empty()) {
    chart.series.push_back({.name = "validation", .color = 2, .points = val, .dots = true});
  }
  if (const MetricsRow* best = best_row(rows)) {
    chart.mark_x = static_cast<double>(best->iter);
    chart.mark_label = fmt::format("best validation {:.4f}", *best->val_loss);
  }
  std::string legend =
      "<ul class=\"legend\"><li><i class=\"k1\"></i>training, smoothed; each "
      "line of the log is faint</li>";
  if (!val.empty()) legend += "<li><i class=\"k2\"></i>validation, text not trained on</li>";
  return "<section class=\"card\">\n<h2>Loss</h2>\n" + legend + "</ul>\n<figure class=\"wide\">\n" +
         line_chart(chart) + "</figure>\n</section>\n";
}

std::string small_chart(const std::vector<MetricsRow>& rows, Field field, int color,
                        std::string title, std::string unit, bool from_zero) {
  Chart chart;
  chart.title = title + " by iteration";
  chart.x_label = "iteration";
  chart.y_label = std::move(unit);
  chart.series.push_back({.name = title, .color = color, .points = points_of(rows, field)});
  chart.width = 330;
  chart.height = 220;
  chart.y_from_zero = from_zero;
  if (const auto last = last_of(rows, field)) {
    chart.description = fmt::format("{} ends at {}.", title, short_number(*last));
  }
  return "<section class=\"card\">\n<h2>" + html_escape(title) + "</h2>\n<figure>\n" +
         line_chart(chart) + "</figure>\n</section>\n";
}

std::string figures(const TrainingReport& report) {
  const std::vector<MetricsRow>& rows = report.metrics;
  TextRows out;
  if (const auto val = last_of(rows, &MetricsRow::val_loss)) {
    out.emplace_back(fmt::format("{:.4f}", *val), "validation loss");
    out.emplace_back(short_number(std::exp(*val)), "validation perplexity");
  } else {
    out.emplace_back(loss_text(last_of(rows, &MetricsRow::loss)), "training loss");
  }
  out.emplace_back(short_number(static_cast<double>(report.parameters)), "parameters");
  if (const auto elapsed = last_of(rows, &MetricsRow::elapsed)) {
    out.emplace_back(duration(*elapsed), "training time");
  }
  if (const auto speed = last_of(rows, &MetricsRow::tokens_per_second)) {
    out.emplace_back(short_number(std::round(*speed)), "tokens a second");
  }
  return html_figures(out);
}

std::string summary_table(const TrainingReport& report) {
  const std::vector<MetricsRow>& rows = report.metrics;
  const Index iter = rows.empty() ? 0 : rows.back().iter;
  TextRows out{{"Iterations", fmt::format("{} of {}", iter, report.options.max_iters)},
               {"Training loss", loss_text(last_of(rows, &MetricsRow::loss))},
               {"Validation loss", loss_text(last_of(rows, &MetricsRow::val_loss))}};
  if (const MetricsRow* best = best_row(rows)) {
    out.emplace_back("Best validation loss",
                     fmt::format("{:.4f} at iteration {}", *best->val_loss, best->iter));
  }
  if (report.skipped_steps > 0) {
    out.emplace_back("Skipped steps",
                     fmt::format("{}, for numbers that were not finite", report.skipped_steps));
  }
  out.insert(out.end(), report.facts.begin(), report.facts.end());
  return html_table("The run", out);
}

std::string model_table(const TrainingReport& report) {
  const GptConfig& m = report.model;
  const auto yes = [](bool value) { return std::string(value ? "yes" : "no"); };
  return html_table(
      "The model",
      {{"Parameters", grouped(report.parameters)},
       {"Layers", fmt::format("{}", m.n_layer)},
       {"Heads", fmt::format("{}", m.n_head)},
       {"Width", fmt::format("{}", m.n_embd)},
       {"Feed-forward width", fmt::format("{}", m.feed_forward_width())},
       {"Context", fmt::format("{} tokens", m.block_size)},
       {"Vocabulary", grouped(m.vocab_size)},
       {"Norm", m.norm == NormPlacement::kPre ? "before each branch (pre)" : "after (post)"},
       {"Biases", yes(m.bias)},
       {"Head tied to the embedding", yes(m.tie_word_embeddings)},
       {"Dropout (embedding, attention, residual)",
        fmt::format("{}, {}, {}", m.embd_pdrop, m.attn_pdrop, m.resid_pdrop)}});
}

std::string options_list(const TrainOptions& options) {
  TrainOptions filled = options;  // with the defaults that depend on others
  filled.min_lr = options.min_learning_rate();
  filled.warmup_iters = options.warmup_steps();
  filled.lr_decay_iters = options.decay_steps();
  TextRows rows;
  visit_train_options(filled, [&](const char* name, const auto& field, OnResume) {
    using Type = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_enum_v<Type>) {
      rows.emplace_back(name, to_string(field));
    } else if constexpr (requires { field.has_value(); }) {
      rows.emplace_back(name, fmt::format("{}", *field));
    } else {
      rows.emplace_back(name, fmt::format("{}", field));
    }
  });
  return html_pairs("Options", rows);
}

std::string samples_section(const TextRows& samples) {
  if (samples.empty()) return "";
  std::string out = "<section class=\"card\">\n<h2>What it writes</h2>\n";
  for (const auto& [prompt, text] : samples) {
    out += "<pre><b>" + html_escape(prompt) + "</b>" + html_escape(text) + "</pre>\n";
  }
  return out + "</section>\n";
}

}  // namespace

std::string training_report_html(const TrainingReport& report) {
  const auto card = [](const std::string& inner) {
    return "<section class=\"card\">\n" + inner + "</section>\n";
  };
  const std::vector<MetricsRow>& rows = report.metrics;
  std::string body = "<h1>" + html_escape(report.title) + "</h1>\n<p class=\"lead\">A GPT of " +
                     fmt::format("{} layers and width {}, trained with prenorm.</p>\n",
                                 report.model.n_layer, report.model.n_embd);
  if (report.interrupted) {
    body +=
        "<p class=\"card notice\">This run was interrupted and saved; <code>--resume</code> "
        "goes on from here.</p>\n";
  }
  body += figures(report) + loss_section(rows);
  body += "<div class=\"columns\">\n";
  body += small_chart(rows, &MetricsRow::learning_rate, 3, "Learning rate", "rate", true);
  body +=
      small_chart(rows, &MetricsRow::grad_norm, 4, "Gradient norm", "norm before clipping", true);
  body += small_chart(rows, &MetricsRow::tokens_per_second, 1, "Speed", "tokens a second", true);
  body += "</div>\n" + watch_section(report.watch) + samples_section(report.samples) +
          "<div class=\"columns\">\n";
  body += card(summary_table(report)) + card(model_table(report)) + "</div>\n";
  body += card(options_list(report.options));
  if (!report.files.empty()) body += card(html_table("Files of this folder", report.files));
  body +=
      "<footer>Losses are means over tokens, in nats. The numbers behind the curves are in "
      "metrics.jsonl.</footer>\n";
  return html_page(report.title, body);
}

}  // namespace prenorm
