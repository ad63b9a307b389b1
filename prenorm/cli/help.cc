#include "prenorm/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "prenorm/kernels/isa.h"

#ifndef PRENORM_VERSION  // set by the build
#define PRENORM_VERSION "0.1.0"
#endif

namespace prenorm::cli {
namespace {

constexpr std::size_t kHelpColumn = 30;
constexpr std::size_t kWidth = 100;

// Appends words of `text`, broken at the page's width and indented to the help column.
void append_wrapped(std::string& page, std::size_t column, const std::string& text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > kHelpColumn && column + 1 + length > kWidth) {
      page += "\n" + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (column > kHelpColumn) {
      page += ' ';
      ++column;
    }
    page += text.substr(begin, length);
    column += length;
    begin = end + 1;
  }
  page += '\n';
}

std::string flag_column(const Option& option) {
  std::string text = option.letter != 0 ? fmt::format("  -{}, ", option.letter) : "  ";
  text += option.negatable ? "--[no-]" + option.name : "--" + option.name;
  if (!option.value_name.empty()) text += " " + option.value_name;
  if (option.many) text += "…";
  return text;
}

// Characters, not bytes: "…" is one column wide.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

void append_option(std::string& page, const std::string& left, const std::string& help) {
  page += left;
  if (columns_of(left) + 2 > kHelpColumn) {
    page += "\n" + std::string(kHelpColumn, ' ');
  } else {
    page += std::string(kHelpColumn - columns_of(left), ' ');
  }
  append_wrapped(page, kHelpColumn, help);
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown compiler";
#endif
}

}  // namespace

std::string program_help(std::span<const VerbEntry> verbs) {
  std::string page =
      "prenorm: trains and runs GPT-style language models on CPUs, exact and reproducible to the "
      "bit\n\nusage: prenorm VERB [flags]\n\n";
  for (const VerbEntry& verb : verbs) page += fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  page +=
      "\n`prenorm VERB --help` explains a verb's flags; `prenorm --version` tells what this build "
      "is.\n\nA first run:\n  prenorm train notes.txt --out-dir run\n"
      "  prenorm generate -m run -p \"Once upon a time\"\n";
  return page;
}

std::string verb_help(const VerbEntry& verb, const OptionTable& table) {
  std::string page =
      fmt::format("prenorm {}: {}\n\nusage: {}\n", verb.name, verb.summary, verb.usage);
  std::string group;
  for (const Option& option : table.options()) {
    if (option.group != group) {
      group = option.group;
      page += "\n" + group + "\n";
    }
    std::string help = option.help;
    if (!option.default_text.empty()) help += " [" + option.default_text + "]";
    append_option(page, flag_column(option), help);
  }
  append_option(page, "  -h, --help", "this page");
  page += fmt::format(
      "\nA flag overrules the environment, the environment overrules the --config file: --{0},\n"
      "{1} and the TOML key {2} are one option.\n",
      table.options().front().name, environment_name(table.options().front().name),
      toml_key(table.options().front().name));
  page += fmt::format("\nExample\n  {}\n", verb.example);
  return page;
}

std::string version_text() {
  std::string isas;
  for (Isa isa : supported_isas()) isas += (isas.empty() ? "" : " ") + std::string(isa_name(isa));
  return fmt::format("prenorm {}\ncompiler: {}\ninstruction sets here: {}\n", PRENORM_VERSION,
                     compiler(), isas.empty() ? "none with fused multiply-add" : isas);
}

}  // namespace prenorm::cli
