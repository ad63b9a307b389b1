// What is told about each mistake: what the mistaken code does, the one line that puts it right in
// PyTorch's words, and where it has happened in public.
#pragma once
#include <span>
#include <string_view>

namespace prenorm {

struct MistakeAdvice {
  std::string_view name;      // of reference/mistake_table.h
  std::string_view sentence;  // "The variance is divided by C − 1 …"
  std::string_view fix;       // a line of code, or two with a semicolon
  std::string_view example;   // a place where it has happened, with its address where there is one
};

// One for each mistake of the table, in its order.
std::span<const MistakeAdvice> mistake_advice();
// Throws ConfigError for another name.
const MistakeAdvice& advice_on(std::string_view name);

}  // namespace prenorm
