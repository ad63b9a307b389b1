#include "prenorm/cli/embed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/common.h"
#include "prenorm/model/sentence_encoder.h"

namespace prenorm::cli {
namespace {

// Texts read, computed and printed together.
constexpr std::size_t kGroup = 1024;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    lines.emplace_back(line);
  }
  return lines;
}

class Embed : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Input");
    table.text("model", folder_, "DIR", "folder of a BERT or of sentence-transformers")
        .short_name('m');
    table.texts("data", files_, "FILE", "texts, one a line; - or none: standard input")
        .from_positionals();
    table.group("Vectors");
    table.choice("pooling", pooling_, {"mean", "cls", "max"}, "of the tokens' vectors")
        .shown_default("the folder's, else mean");
    table.toggle("normalize", normalize_, "to length 1").shown_default("as the folder says");
    table.integer("batch-size", batch_, {1, kMostTexts}, "texts computed together");
    common_.declare_machine(table);
    table.group("Output");
    common_.declare_output(table, "print one JSON object a text: embedding");
  }

  int run(const OptionTable& table, const Streams& streams) override {
    if (folder_.empty()) throw ConfigError("-m: expected a model folder, found none");
    const std::vector<std::string> paths = files_.empty() ? std::vector<std::string>{"-"} : files_;
    if (std::ranges::count(paths, "-") > 1) {
      throw ConfigError("--data: expected '-' (standard input) once, found it twice");
    }
    SentenceEncoder encoder(folder_);
    if (table.given("pooling")) encoder.config().pooling = *pooling_from_name(pooling_);
    if (table.given("normalize")) encoder.config().normalize = normalize_;
    const Runtime run(common_.runtime());
    encoder.pack(run);
    for (const std::string& path : paths) {
      const std::vector<std::string> texts =
          lines_of(path == "-" ? read_stream(std::cin, "standard input") : read_file(path));
      for (std::size_t first = 0; first < texts.size(); first += kGroup) {
        const auto group = std::span(texts).subspan(first, std::min(kGroup, texts.size() - first));
        print(encoder.encode(run, group, batch_), static_cast<std::size_t>(encoder.width()),
              printable(path), first, streams.out);
      }
    }
    return kDone;
  }

 private:
  static constexpr Index kMostTexts = 1 << 16;

  // Each float as the shortest text that reads back to it.
  void print(const std::vector<float>& vectors, std::size_t width, const std::string& path,
             std::size_t first, Output& out) const {
    for (std::size_t begin = 0; begin < vectors.size(); begin += width) {
      std::string line = common_.json ? "{\"embedding\":[" : "";
      for (std::size_t i = 0; i < width; ++i) {
        const float x = vectors[begin + i];
        if (!std::isfinite(x)) {
          throw NumericalError(fmt::format("{}, line {}: expected a finite vector, found {} at {}",
                                           path, first + begin / width + 1, x, i));
        }
        if (i > 0) line += common_.json ? "," : " ";
        fmt::format_to(std::back_inserter(line), "{}", x);
      }
      out.write(line + (common_.json ? "]}\n" : "\n"));
    }
    out.flush();
  }

  std::string folder_;
  std::vector<std::string> files_;
  std::string pooling_ = "mean";
  bool normalize_ = false;
  Index batch_ = 32;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_embed() { return std::make_unique<Embed>(); }

}  // namespace prenorm::cli
