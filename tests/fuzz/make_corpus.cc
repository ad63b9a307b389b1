// make_corpus DIR: writes each target's seeds as DIR/TARGET/N, and prints the targets' names.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/targets.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("make_corpus: expected a folder, found no or more arguments\n", stderr);
    return 2;
  }
  for (const prenorm::fuzz::Target& target : prenorm::fuzz::all_targets()) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / target.name;
    std::filesystem::create_directories(folder);
    int number = 0;
    for (const std::string& seed : target.seeds()) {
      std::ofstream(folder / std::to_string(number++), std::ios::binary) << seed;
    }
    std::puts(std::string(target.name).c_str());
  }
  return 0;
}
