// `prenorm check`: the properties of a model, with figures.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"
#include "prenorm/study/check_subject.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_check();
// The same with other passes in the model's place, so that a test may see it fail.
std::unique_ptr<Verb> make_check(CheckSeams seams);

}  // namespace prenorm::cli
