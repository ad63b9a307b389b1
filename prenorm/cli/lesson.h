// prenorm lesson: writes the lesson page of docs/lesson/, which the program carries. Its flags are
// in docs/cli.md.
#pragma once
#include <memory>
#include <string_view>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

// docs/lesson/index.html as it was when the program was built.
std::string_view lesson_page();

std::unique_ptr<Verb> make_lesson();

}  // namespace prenorm::cli
