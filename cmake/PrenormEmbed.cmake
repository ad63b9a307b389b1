# Writes a C++ source with the bytes of a file in it, for the program to carry. Run as a script, so
# that the source is made anew when the file changes:
#
#   cmake -D INPUT=page.html -D OUTPUT=page.cc -D HEADER=prenorm/cli/lesson.h
#         -D FUNCTION=prenorm::cli::lesson_page -P PrenormEmbed.cmake
#
# FUNCTION is declared in HEADER and returns a std::string_view.
file(READ "${INPUT}" hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" lines "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${lines}")
file(WRITE "${OUTPUT}.new" "\
// Made from ${INPUT} by cmake/PrenormEmbed.cmake.
#include \"${HEADER}\"

namespace {
constexpr unsigned char kBytes[] = {
${bytes}
};
}  // namespace

std::string_view ${FUNCTION}() {
  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};
}
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
