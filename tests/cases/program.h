// The built program as a user runs it, in a folder of its own that goes away with it.
//
//   ProgramFolder folder(c.session().paths().program);
//   folder.write("text.txt", "to be or not to be");
//   const Ran ran = folder.run({"train", "text.txt", "--max-iters", "2"});
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "prenorm/base/json.h"
#include "tests/cases/case.h"
#include "tests/temporary_folder.h"

namespace prenorm::cases {

// A file as it is, without the care of write_file_durably.
void write_plainly(const std::filesystem::path& path, const std::string& bytes);

struct Ran {
  int code = -1;  // exit code, or −signal
  std::string out, err;
};

class ProgramFolder {
 public:
  explicit ProgramFolder(const std::filesystem::path& program);

  std::filesystem::path operator/(const std::string& name) const { return folder_.path() / name; }
  void write(const std::string& name, const std::string& bytes) const;
  std::string read(const std::string& name) const;  // empty where there is none

  Ran run(const std::vector<std::string>& arguments) const;
  // Starts it and returns; wait() ends it.
  pid_t start(const std::vector<std::string>& arguments) const;
  Ran wait(pid_t child) const;

 private:
  std::filesystem::path program_;
  TemporaryFolder folder_;
};

// Flags of `prenorm train` by their names with underscores.
using Flags = std::map<std::string, std::string>;
// A model and a training that take a moment.
Flags small_training();
// The keys of a case's input that are flags of `train`, over those of small_training().
Flags training_flags(Case& c);
std::vector<std::string> train_command(const std::string& text, const Flags& flags);

// An error as the program reports it: not exit code 0, and one line on standard error that holds
// all of `words`.
void require_reported(Case& c, const Ran& ran, const std::vector<std::string>& words);

// A text of `bytes` bytes with something to learn.
std::string text_of_bytes(Index bytes);

}  // namespace prenorm::cases
