#include "prenorm/report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prenorm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Html, escapes_what_would_be_markup) {
  EXPECT_EQ(html_escape("<b onclick=\"x('&')\">"),
            "&lt;b onclick=&quot;x(&#39;&amp;&#39;)&quot;&gt;");
  EXPECT_EQ(html_escape("Zürich\n\t日"), "Zürich\n\t日");
}

TEST(Html, bytes_that_no_page_may_hold_become_the_replacement_character) {
  EXPECT_EQ(html_escape(std::string_view("a\0b", 3)), "a\uFFFDb");
  EXPECT_EQ(html_escape("a\x1b[0m"), "a\uFFFD[0m");
  EXPECT_EQ(html_escape("a\xff"), "a\uFFFD");
}

TEST(Html, a_page_fetches_nothing_runs_nothing_and_follows_the_readers_setting) {
  const std::string page = html_page("a < b", "<p>body</p>");
  EXPECT_THAT(page, HasSubstr("<title>a &lt; b</title>"));
  EXPECT_THAT(page, HasSubstr("<p>body</p>"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  for (const char* foreign : {"<script", "<link", "@import", "url(", "src="}) {
    EXPECT_THAT(page, Not(HasSubstr(foreign)));
  }
}

TEST(Html, tables_and_figures_escape_names_and_values) {
  for (const std::string& html :
       {html_table("<c>", {{"<n>", "<v>"}}), html_pairs("<c>", {{"<n>", "<v>"}})}) {
    for (const char* text : {"&lt;c&gt;", "&lt;n&gt;", "&lt;v&gt;"}) {
      EXPECT_THAT(html, HasSubstr(text));
    }
  }
  EXPECT_THAT(html_figures({{"<v>", "<n>"}}), HasSubstr("<dt>&lt;n&gt;</dt><dd>&lt;v&gt;</dd>"));
}

}  // namespace
}  // namespace prenorm
