#include "prenorm/cli/lesson.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_program.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;

class LessonVerb : public testing::Test {
 protected:
  Ran run(const std::vector<std::string>& arguments) { return run_program(scratch_, arguments); }

  const std::string page_ = slurp(PRENORM_SOURCE_DIR "/docs/lesson/index.html");
  Scratch scratch_;
};

TEST_F(LessonVerb, carries_the_page_of_the_source_tree) {
  ASSERT_THAT(page_, HasSubstr("</html>"));
  EXPECT_EQ(lesson_page(), page_);
}

TEST_F(LessonVerb, writes_the_page_to_a_file) {
  const Ran ran = run({"lesson", "-o", "lesson.html"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, "lesson.html: open it in a browser\n");
  EXPECT_EQ(slurp(scratch_ / "lesson.html"), page_);
}

TEST_F(LessonVerb, writes_the_page_to_standard_output) {
  const Ran ran = run({"lesson", "--output", "-"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, page_);
  EXPECT_EQ(ran.err, "");
}

TEST_F(LessonVerb, leaves_another_file_alone_unless_forced) {
  spill(scratch_ / "notes.html", "mine");
  expect_error(run({"lesson", "-o", "notes.html"}), 3, "notes.html: expected a new file");
  EXPECT_EQ(slurp(scratch_ / "notes.html"), "mine");
  EXPECT_EQ(run({"lesson", "-o", "notes.html", "--force"}).code, 0);
  EXPECT_EQ(slurp(scratch_ / "notes.html"), page_);
}

TEST_F(LessonVerb, is_content_with_the_same_page_already_there) {
  EXPECT_EQ(run({"lesson", "-o", "lesson.html"}).code, 0);
  EXPECT_EQ(run({"lesson", "-o", "lesson.html"}).code, 0);
  EXPECT_EQ(slurp(scratch_ / "lesson.html"), page_);
}

TEST_F(LessonVerb, does_not_follow_a_link_to_nothing) {
  std::filesystem::create_symlink(scratch_ / "elsewhere.html", scratch_ / "link.html");
  expect_error(run({"lesson", "-o", "link.html"}), 3, "link.html: expected a new file");
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "elsewhere.html"));
}

TEST_F(LessonVerb, says_what_is_missing) {
  expect_error(run({"lesson"}), 2, "-o: expected a file to write, or -, found none");
  EXPECT_EQ(run({"lesson", "-o", "no/such/folder/lesson.html"}).code, 3);
  EXPECT_EQ(run({"lesson", "-o", "."}).code, 3);
  EXPECT_EQ(run({"lesson", "-o", ".", "--force"}).code, 3);
}

}  // namespace
}  // namespace prenorm::cli
