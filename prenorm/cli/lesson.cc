#include "prenorm/cli/lesson.h"

#include <filesystem>
#include <string>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"

namespace prenorm::cli {
namespace {

class Lesson : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Output");
    table.text("output", output_, "FILE", "page to write; - is standard output").short_name('o');
    table.flag("force", force_, "replace a file that is there");
    table.text("config", config_, "FILE", "TOML file with values for these flags");
  }

  int run(const OptionTable&, const Streams& streams) override {
    if (output_.empty()) throw ConfigError("-o: expected a file to write, or -, found none");
    if (output_ == "-") {
      streams.out.write(lesson_page());
      return kDone;
    }
    write();
    streams.log.print("{}: open it in a browser\n", output_);
    return kDone;
  }

 private:
  // Writes the page unless it is there. Throws IoError rather than replace another file.
  void write() const {
    namespace fs = std::filesystem;
    std::error_code unknown;
    const fs::file_status status = fs::symlink_status(output_, unknown);
    if (fs::exists(status) && !force_) {
      if (fs::is_regular_file(output_, unknown) && read_file(output_) == lesson_page()) return;
      throw IoError(output_ + ": expected a new file, or --force, found one that is there");
    }
    write_file_durably(output_, lesson_page());
  }

  std::string output_, config_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_lesson() { return std::make_unique<Lesson>(); }

}  // namespace prenorm::cli
