#!/usr/bin/env bash
# Builds prenorm with warnings as errors and runs every test: C++ (CTest), the structure of the
# source tree, the consumer projects, and the Python tests against PyTorch and transformers.
#
#   ./test.sh            everything
#   ./test.sh --long     everything, and more kills, faults and damages than usual
#   ./test.sh --clang    the same with Clang 14
#   ./test.sh --asan     the C++ tests under the address and undefined-behaviour sanitizers
#   ./test.sh --tsan     the C++ tests under the thread sanitizer
#
# Installs what is missing: Debian's packages with apt, Python's into .venv (kept between runs; once
# it is there no network is needed). The last line adds up all tests: N passed, N failed, N skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=tools/setup.sh
source tools/setup.sh
exec </dev/null

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

preset=dev with_python=true extra_packages=()
case "${1:-}" in
  "") ;;
  --clang)
    preset=clang
    extra_packages=(clang-14)
    ;;
  --long) export PRENORM_LONG_TESTS=1 ;;
  --asan) preset=asan with_python=false ;;
  --tsan) preset=tsan with_python=false ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac
build=build/$preset

# ---- what is needed -----------------------------------------------------------------------------

# A Python that can make virtual environments; pyenv's as well as the system's.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' \
      >/dev/null 2>&1; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

prepare_python() {
  local requirements=tests/python/requirements.txt python log
  if [[ -x .venv/bin/python ]] && cmp -s "$requirements" .venv/requirements.txt; then
    return 0
  fi
  python=$(find_python) || {
    if is_debian; then install_missing python3 python3-venv; fi
    python=$(find_python) || die "python3: expected 3.10 or newer with venv, found none"
  }
  say "Installing PyTorch and transformers into .venv"
  log=$(mktemp)
  if ! {
    "$python" -m venv --clear .venv &&
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements" &&
    .venv/bin/python -c 'import torch, transformers, safetensors, numpy, pytest'
  } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "pip could not install PyTorch and the other packages of $requirements (its last lines are
above). The tests need them once; PIP_INDEX_URL or PIP_EXTRA_INDEX_URL name another package index."
  fi
  rm -f "$log"
  cp "$requirements" .venv/requirements.txt
}

# ---- counting -----------------------------------------------------------------------------------

passed=0 failed=0 skipped=0

# attribute FILE NAME: the number in the first NAME="..." of a JUnit file.
attribute() {
  local value
  value=$(grep -oE "(^|[[:space:]])$2=\"[0-9]+\"" "$1" | head -n 1 | grep -oE '[0-9]+' || true)
  echo "${value:-0}"
}

# count WHAT JUNIT_FILE STATUS: adds up one runner's results; a runner that broke is a failure.
count() {
  local what=$1 junit=$2 status=$3 tests=0 bad=0 left_out=0
  if [[ -s $junit ]]; then
    tests=$(attribute "$junit" tests)
    bad=$(($(attribute "$junit" failures) + $(attribute "$junit" errors)))
    left_out=$(($(attribute "$junit" skipped) + $(attribute "$junit" disabled)))
  fi
  if ((bad == 0)) && { ((status != 0)) || ((tests == 0)); }; then
    printf '%s: ended with status %s after %s tests\n' "$what" "$status" "$tests" >&2
    bad=1 tests=$((tests + 1))
  fi
  passed=$((passed + tests - bad - left_out))
  failed=$((failed + bad))
  skipped=$((skipped + left_out))
}

# ---- build and run ------------------------------------------------------------------------------

prepare_tools "${BUILD_PACKAGES[@]}" libgtest-dev libgmock-dev libbenchmark-dev python3 \
  "${extra_packages[@]}"
# The arithmetic is also tried with a second compiler and on another processor, emulated; where
# these cannot be had, those tests are skipped with a message.
if is_debian && [[ $(dpkg --print-architecture) == amd64 ]]; then
  (install_missing clang-14 g++-aarch64-linux-gnu qemu-user) ||
    say "Without Clang and the emulator: their tests will be skipped"
  (install_missing clang-14 libclang-rt-14-dev) ||
    say "Without libFuzzer: the readers will not be fuzzed"
fi
# Training under mpirun, likewise.
if is_debian; then
  (install_missing libopenmpi-dev openmpi-bin) ||
    say "Without Open MPI: the tests of several ranks will be skipped"
fi
if $with_python; then prepare_python; fi

launcher=()
if command -v ccache >/dev/null; then launcher=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi

say "Building ($preset)"
configure "$build" --preset "$preset" "${launcher[@]}"
"$CMAKE" --build "$build" --parallel "$(compile_jobs)" || die "the build failed"

say "C++ tests, structure, consumers"
rm -f "$build"/*.junit.xml
status=0
"$CTEST" --preset "$preset" --parallel "$(cores)" \
  --output-junit "$PWD/$build/ctest.junit.xml" || status=$?
count ctest "$build/ctest.junit.xml" "$status"

if [[ $preset == dev ]]; then
  say "Fuzzers of the readers"
  status=0
  CMAKE=$CMAKE PRENORM_FUZZ_JOBS=$(compile_jobs) tests/fuzz/run || status=$?
  case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
fi

if $with_python; then
  say "Python tests: the program, PyTorch, transformers"
  status=0
  .venv/bin/python -m pytest -q -ra -p no:cacheprovider tests/python --build-dir "$build" \
    --junitxml="$build/pytest.junit.xml" || status=$?
  count pytest "$build/pytest.junit.xml" "$status"
fi

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
