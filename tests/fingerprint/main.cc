// The fingerprints without the rest of the program, so that other compilers, other builds and other
// processors can be tried with few files: prints what it ran on, names the first that differs from
// the record and ends with 1.
#include <cstdio>
#include <exception>
#include <string>

#include "prenorm/kernels/isa.h"
#include "prenorm/study/fingerprint.h"

namespace {

bool check(prenorm::Isa isa, int threads) {
  const std::string name(prenorm::isa_name(isa));
  const prenorm::Runtime run({.threads = threads, .isa = name});
  const auto found = prenorm::compute_fingerprints(run);
  const auto first = prenorm::first_difference(found);
  if (!first) {
    std::printf("%s, threads %d: all %zu as recorded\n", name.c_str(), threads, found.size());
    return true;
  }
  std::printf("%s, threads %d: first that differs: %s\n", name.c_str(), threads,
              *first < found.size() ? std::string(found[*first].name).c_str() : "(missing)");
  return false;
}

}  // namespace

int main() {
  try {
    bool same = !prenorm::supported_isas().empty();
    for (const prenorm::Isa isa : prenorm::supported_isas()) {
      for (int threads : {1, 3}) same = check(isa, threads) && same;
    }
    return same ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
