// All targets as one libFuzzer program, which is the target that its name says: fuzz_NAME, a link.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/fuzz/targets.h"

namespace {

const prenorm::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(const int* argc, char*** argv) {
  const std::string name = std::filesystem::path(*argc > 0 ? (*argv)[0] : "").filename();
  for (const prenorm::fuzz::Target& target : prenorm::fuzz::all_targets()) {
    if (name == "fuzz_" + std::string(target.name)) chosen = &target;
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "expected the name fuzz_TARGET, found %s\n", name.c_str());
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // What is thrown here is a finding: libFuzzer keeps the input and ends.
  chosen->accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}
