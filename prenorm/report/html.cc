#include "prenorm/report/html.h"

#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

constexpr std::string_view kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --ink: #1b1b1a; --soft: #5d5d59; --line: #e3e2dd;
  --grid: #ebeae6; --c1: #2a6fc9; --c2: #d5581a; --c3: #1b8a72; --c4: #7a55c7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #151514; --card: #1e1e1d; --ink: #f0efec; --soft: #a9a8a2; --line: #343431;
    --grid: #2b2b29; --c1: #6ba4f0; --c2: #f08a52; --c3: #47bfa3; --c4: #b095f0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 12px; }
.lead { color: var(--soft); margin: 0 0 28px; }
h2.part { font-size: 22px; margin: 44px 0 4px; }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 20px 22px; margin: 0 0 20px; min-width: 0;
}
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(290px, 1fr)); gap: 20px; }
.columns > .card { margin: 0; }
.columns { margin-bottom: 20px; }
.figures {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 20px;
  margin: 0 0 20px; padding: 0;
}
.figures div {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 16px 20px;
}
.figures dd { margin: 0; font-size: 28px; font-weight: 650; line-height: 1.2; white-space: nowrap; }
.figures dt { color: var(--soft); font-size: 13px; }
.figures div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
figure { margin: 0; overflow-x: auto; }
figure.wide svg { min-width: 620px; }
.columns svg { max-width: 420px; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 12px; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .label { font-weight: 600; }
svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--line); stroke-width: 1; }
svg .mark { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 4; }
svg .curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .faint { stroke-width: 1.25; opacity: .3; }
svg .dashed { stroke-dasharray: 5 5; stroke-width: 1.5; }
svg .dot { stroke: var(--card); stroke-width: 1.5; }
svg .s1 { stroke: var(--c1); } svg .s2 { stroke: var(--c2); }
svg .s3 { stroke: var(--c3); } svg .s4 { stroke: var(--c4); }
svg .f1 { fill: var(--c1); } svg .f2 { fill: var(--c2); }
svg .f3 { fill: var(--c3); } svg .f4 { fill: var(--c4); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 20px; margin: 0 0 10px; padding: 0; }
.legend li { list-style: none; font-size: 14px; color: var(--soft); }
.legend i {
  display: inline-block; width: 18px; height: 3px; border-radius: 2px; margin-right: 8px;
  vertical-align: middle;
}
.k1 { background: var(--c1); border-color: var(--c1); }
.k2 { background: var(--c2); border-color: var(--c2); }
.k3 { background: var(--c3); border-color: var(--c3); }
.k4 { background: var(--c4); border-color: var(--c4); }
.legend .dashed { background: none; border-top-width: 2px; border-top-style: dashed; height: 0; }
.legend b { color: var(--ink); font-weight: 600; }
.legend code, p code { font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
caption { text-align: left; font-size: 17px; font-weight: 650; padding: 0 0 8px; }
th, td { text-align: left; padding: 6px 0; border-top: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 400; padding-right: 16px; }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.pairs {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(270px, 1fr)); gap: 0 32px;
  margin: 0; font-size: 14px;
}
.pairs div {
  display: flex; justify-content: space-between; gap: 16px; padding: 6px 0;
  border-top: 1px solid var(--line);
}
.pairs dt { color: var(--soft); }
.pairs dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
pre {
  margin: 0 0 12px; white-space: pre-wrap; overflow-wrap: anywhere;
  font: 14px/1.55 ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
pre:last-child { margin: 0; }
pre b { color: var(--c1); font-weight: 600; }
pre + pre { border-top: 1px solid var(--line); padding-top: 12px; }
.notice { border-left: 4px solid var(--c2); }
footer { color: var(--soft); font-size: 13px; margin-top: 28px; }
@media print { body { background: none; } .card, .figures div { break-inside: avoid; } }
)css";

}  // namespace

std::string html_escape(std::string_view text) {
  const std::string valid = to_valid_utf8(text);
  std::string out;
  out.reserve(valid.size());
  for (const char c : valid) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if ((byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7F) {
          append_utf8(out, kReplacementCharacter);
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string html_page(std::string_view title, std::string_view body) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  out += html_escape(title);
  out += "</title>\n<style>";
  out += kStyle;
  out += "</style>\n</head>\n<body>\n<main>\n";
  out += body;
  out += "</main>\n</body>\n</html>\n";
  return out;
}

std::string html_table(std::string_view caption, const TextRows& rows) {
  std::string out = "<table>\n<caption>" + html_escape(caption) + "</caption>\n";
  for (const auto& [name, value] : rows) {
    out += "<tr><th scope=\"row\">" + html_escape(name) + "</th><td>" + html_escape(value) +
           "</td></tr>\n";
  }
  return out + "</table>\n";
}

std::string html_pairs(std::string_view heading, const TextRows& rows) {
  std::string out = "<h2>" + html_escape(heading) + "</h2>\n<dl class=\"pairs\">\n";
  for (const auto& [name, value] : rows) {
    out += "<div><dt>" + html_escape(name) + "</dt><dd>" + html_escape(value) + "</dd></div>\n";
  }
  return out + "</dl>\n";
}

std::string html_figures(const TextRows& figures) {
  std::string out = "<dl class=\"figures\">\n";
  for (const auto& [value, name] : figures) {
    out += "<div><dt>" + html_escape(name) + "</dt><dd>" + html_escape(value) + "</dd></div>\n";
  }
  return out + "</dl>\n";
}

}  // namespace prenorm
