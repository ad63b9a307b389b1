// What the fuzzers call: a function a reader, which takes any bytes. A typed error or a valid load
// is right; anything else, a crash, another exception, a report of a sanitizer, is a finding.
//
// libfuzzer.cc makes one of them a libFuzzer program, replay_test.cc runs all of them on their
// seeds and on mutations of these with any compiler, make_corpus.cc writes the seeds to files.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace prenorm::fuzz {

struct Target {
  std::string_view name;
  // Whether the bytes were accepted. Throws what is a finding.
  bool (*accepts)(std::string_view bytes);
  // Small inputs to begin with, all of them accepted.
  std::vector<std::string> (*seeds)();
};

std::span<const Target> all_targets();

}  // namespace prenorm::fuzz
