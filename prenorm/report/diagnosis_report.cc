#include "prenorm/report/diagnosis_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "prenorm/report/html.h"
#include "prenorm/report/svg.h"
#include "prenorm/study/diagnose_advice.h"

namespace prenorm {
namespace {

using reference::Numbers;

std::string type_name(Numbers numbers) {
  if (numbers == Numbers::kBfloat16) return "bfloat16";
  return numbers == Numbers::kFloat16 ? "half-float" : "float32";
}

std::string joined(const std::vector<std::string>& names, const char* between) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : between) + name;
  return out;
}

// "norm.eps-value = 1e-06, everywhere"
std::string title(const NamedMistake& m) {
  std::string out = m.name;
  if (m.number) out += fmt::format(" = {}", *m.number);
  if (!m.text.empty()) out += " " + m.text;
  return out + ", " + (m.places.empty() ? m.where : joined(m.places, " and "));
}

std::string confidence(const NamedMistake& m) {
  if (m.margin <= 0.0) return "";
  return fmt::format("The runner-up leaves {:.3g} times the squared residual.", m.margin);
}

// How far over its rounding a stage is, as powers of ten, at most `most`.
int bar_length(const DivergedStage& stage, int most) {
  const double times = stage.relative / std::max(stage.rounding, 1e-300);
  return std::clamp(static_cast<int>(std::lround(3.0 * std::log10(std::max(times, 1e-3)))), 0,
                    most);
}

std::string stage_lines(const Diagnosis& found) {
  constexpr int kWidest = 30;
  std::size_t width = 0;
  for (const DivergedStage& s : found.stages) width = std::max(width, s.name.size());
  std::string out;
  for (const DivergedStage& s : found.stages) {
    out += fmt::format(
        "  {:<{}}  {:>8.1e}  {:>8.1e}  {}{}\n", s.name, width, s.relative, s.rounding,
        std::string(static_cast<std::size_t>(bar_length(s, kWidest)), '#'), s.departs ? " <" : "");
  }
  return out;
}

Chart depth_chart(const Diagnosis& found) {
  Chart chart;
  chart.title = "How far each stage is from its replay";
  chart.description =
      "Root mean square of the difference over that of the stage, stage by stage from the "
      "embeddings to the logits, beside what rounding leaves.";
  chart.x_label = "stage";
  chart.y_label = "relative difference";
  chart.y_log = true;
  Series differences{.name = "difference", .color = 2, .points = {}, .dots = true};
  Series rounding{.name = type_name(found.numbers) + " rounding", .color = 1, .points = {}};
  rounding.dashed = true;
  for (std::size_t i = 0; i < found.stages.size(); ++i) {
    const double x = static_cast<double>(i);
    differences.points.emplace_back(x, std::max(found.stages[i].relative, 1e-12));
    rounding.points.emplace_back(x, std::max(found.stages[i].rounding, 1e-12));
  }
  chart.series = {rounding, differences};
  return chart;
}

std::string mistake_card(const NamedMistake& m) {
  const MistakeAdvice& advice = advice_on(m.name);
  std::string out = "<section class=\"card\">\n<h2>" + html_escape(title(m)) + "</h2>\n<p>" +
                    html_escape(advice.sentence) + " " + html_escape(confidence(m)) +
                    "</p>\n<pre>" + html_escape(advice.fix) +
                    "</pre>\n<p>Seen before: " + html_escape(advice.example) + "</p>\n</section>\n";
  return out;
}

}  // namespace

std::string diagnosis_verdict(const Diagnosis& found) {
  const std::string type = type_name(found.numbers);
  switch (found.status) {
    case DiagnosisStatus::kEqual:
      return "no mistake found: equal within " + type + " rounding";
    case DiagnosisStatus::kUnknown: {
      std::string out = "the numbers differ, and no known mistake explains them";
      std::vector<std::string> names;
      for (const NamedMistake& m : found.mistakes) names.push_back(m.name);
      return names.empty() ? out : out + " all; in part: " + joined(names, ", ");
    }
    case DiagnosisStatus::kAmbiguous:
      return "cannot be told apart in " + type + ": " + joined(found.candidates, " or ") +
             (found.numbers == Numbers::kFloat32
                  ? "; dump the stages, or run the probe (--emit-probe)"
                  : "; dump in float32 or run the probe (--emit-probe)");
    case DiagnosisStatus::kNamed:
      break;
  }
  std::vector<std::string> titles;
  for (const NamedMistake& m : found.mistakes) titles.push_back(title(m));
  return joined(titles, "; ");
}

std::string diagnosis_text(const Diagnosis& found) {
  std::string out = diagnosis_verdict(found) + "\n";
  for (const NamedMistake& m : found.mistakes) {
    const MistakeAdvice& advice = advice_on(m.name);
    out += "\n" + title(m) + "\n  " + std::string(advice.sentence) +
           "\n  fix:  " + std::string(advice.fix) + "\n  seen: " + std::string(advice.example) +
           "\n";
    if (m.margin > 0.0) out += "  " + confidence(m) + "\n";
  }
  for (const std::string& name : found.candidates) {
    out += "\n? " + name + "\n  " + std::string(advice_on(name).sentence) + "\n";
  }
  out +=
      "\nEach stage replayed from its own input: relative difference, rounding, and a bar of three "
      "marks for each power of ten above it\n";
  out += stage_lines(found);
  if (found.first_divergence) out += "first divergence: " + *found.first_divergence + "\n";
  for (const std::string& note : found.notes) out += "note: " + note + "\n";
  return out;
}

std::string diagnosis_html(const Diagnosis& found, const std::string& model) {
  std::string body = "<h1>Diagnosis</h1>\n<p class=\"lead\">Beside " + html_escape(model) +
                     "</p>\n<section class=\"card notice\">\n<h2>" +
                     html_escape(diagnosis_verdict(found)) + "</h2>\n";
  if (found.first_divergence) {
    body += "<p>First divergence: " + html_escape(*found.first_divergence) + "</p>\n";
  }
  body += "</section>\n";
  for (const NamedMistake& m : found.mistakes) body += mistake_card(m);
  TextRows candidates;
  for (const std::string& name : found.candidates) {
    candidates.emplace_back(name, std::string(advice_on(name).sentence));
  }
  if (!candidates.empty()) {
    body += "<section class=\"card\">\n" + html_table("In play", candidates) + "</section>\n";
  }
  body += "<section class=\"card\">\n<figure class=\"wide\">\n" + line_chart(depth_chart(found)) +
          "</figure>\n</section>\n";
  TextRows rows;
  for (const DivergedStage& s : found.stages) {
    rows.emplace_back(s.name, fmt::format("{:.1e} ({:.1e} is rounding){}", s.relative, s.rounding,
                                          s.departs ? ", departs" : ""));
  }
  for (const std::string& note : found.notes) rows.emplace_back("note", note);
  body += "<section class=\"card\">\n" +
          html_table("Stages, each replayed from its own input", rows) + "</section>\n";
  return html_page("Diagnosis: " + diagnosis_verdict(found), body);
}

}  // namespace prenorm
