// A folder of a test's own that goes away with it. Tests run side by side, each in its own process,
// so a fixed name would be shared.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace prenorm {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name) {
    std::string path =
        (std::filesystem::temp_directory_path() / ("prenorm-" + name + "-XXXXXX")).string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder " + path);
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace prenorm
