// A file that grows line by line: each line is handed to the system at once, so that what was
// appended before a crash of the process is there after it.
//
//   AppendFile file("RUN/metrics.jsonl", 120);   // cut to its first 120 bytes
//   file.append("{...}\n");
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "prenorm/base/descriptor.h"

namespace prenorm {

class AppendFile {
 public:
  // Makes the file where it is not there. Throws IoError.
  AppendFile(std::filesystem::path path, std::uint64_t keep_bytes);

  // Throws IoError (a full disk); a part of the text may then be there.
  void append(std::string_view text);

 private:
  std::filesystem::path path_;
  Descriptor fd_;
};

}  // namespace prenorm
