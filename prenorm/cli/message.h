// The line in which the program tells what went wrong.
#pragma once
#include <string>
#include <string_view>

namespace prenorm::cli {

// printable() in single quotes: what a user gave, made safe to print on one line.
std::string in_quotes(std::string_view text);

// The program's error line: "prenorm: " and the message, one line of at most 300 characters. Lines
// of a message after its first are kept where they begin with two blanks (lists of tensors).
std::string error_lines(std::string_view message);

// The longest prefix of at most `limit` bytes that ends between UTF-8 characters.
std::string_view prefix_of_characters(std::string_view text, std::size_t limit);

}  // namespace prenorm::cli
