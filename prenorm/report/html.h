// A self-contained HTML page: its style inside, light and dark by the reader's own setting, no
// scripts and nothing fetched. Whatever is given as text is escaped.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prenorm {

// & < > " ' as entities; control characters other than tab and newline, which HTML forbids, and
// bytes that are not UTF-8 as U+FFFD.
std::string html_escape(std::string_view text);

// A whole document; `title` is text, `body` is HTML.
std::string html_page(std::string_view title, std::string_view body);

using TextRows = std::vector<std::pair<std::string, std::string>>;

// A two-column table of name and value, both text, under a caption.
std::string html_table(std::string_view caption, const TextRows& rows);

// Many short names and values in as many columns as fit, under a heading, all text.
std::string html_pairs(std::string_view heading, const TextRows& rows);

// Large figures side by side: value and what it is, both text.
std::string html_figures(const TextRows& figures);

}  // namespace prenorm
