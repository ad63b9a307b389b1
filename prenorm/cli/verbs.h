// The verbs, each in the file of its name.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_train();
std::unique_ptr<Verb> make_generate();
std::unique_ptr<Verb> make_eval();
std::unique_ptr<Verb> make_inspect();
std::unique_ptr<Verb> make_addition();
std::unique_ptr<Verb> make_bench();

}  // namespace prenorm::cli
