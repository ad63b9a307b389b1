# shellcheck shell=bash
# What quickstart.sh and test.sh share; sourced by both. Installs missing packages on Debian and
# Ubuntu, names them elsewhere, and picks a CMake that works.

say() { printf '\n== %s\n' "$*" >&2; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

is_debian() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

name_packages_elsewhere() {
  cat >&2 <<'NAMES'
This system has no apt. Install these with its own package manager, then start again:
  Fedora:    gcc-c++ cmake ninja-build highway-devel cli11-devel tomlplusplus-devel
             json-devel fmt-devel zlib-devel
  Arch:      gcc cmake ninja highway cli11 tomlplusplus nlohmann-json fmt zlib
  openSUSE:  gcc-c++ cmake ninja highway-devel cli11-devel tomlplusplus-devel
             nlohmann_json-devel fmt-devel zlib-devel
  Alpine:    g++ cmake ninja highway-dev cli11-dev tomlplusplus-dev nlohmann-json fmt-dev
             zlib-dev bash
  Homebrew:  cmake ninja highway cli11 tomlplusplus nlohmann-json fmt zlib
The tests need GoogleTest and Python 3.10 or newer as well.
NAMES
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true) == installed ]]
}

# install_missing PACKAGE...: does nothing where all are there; else uses apt, as root or with sudo.
install_missing() {
  local missing=() package as_root=()
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "these packages are missing; as root, run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "Installing ${missing[*]}"
  local log
  log=$(mktemp)
  # The index of a fresh or an old system may not know the packages' present versions.
  if ! { "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
      --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install ${missing[*]} (its last lines are above)"
  fi
  rm -f "$log"
}

# The packages for the library and the program.
# shellcheck disable=SC2034
BUILD_PACKAGES=(g++ cmake ninja-build libhwy-dev libcli11-dev libtomlplusplus-dev
  nlohmann-json3-dev libfmt-dev zlib1g-dev)

# Another CMake or Ninja may come first in PATH (pip's, pyenv's) and may not even start: the
# system's own is the one that knows the system's libraries.
find_tool() {
  local name=$1 path
  for path in "/usr/bin/$name" "$(command -v "$name" || true)"; do
    if [[ -x $path ]] && "$path" --version >/dev/null 2>&1; then
      printf '%s\n' "$path"
      return 0
    fi
  done
  return 1
}

# prepare_tools PACKAGE...: installs them where that is possible, and sets CMAKE, CTEST and NINJA to
# what works.
prepare_tools() {
  if is_debian; then
    install_missing "$@"
  elif ! find_tool cmake >/dev/null || ! find_tool ninja >/dev/null; then
    name_packages_elsewhere
    exit 1
  fi
  CMAKE=$(find_tool cmake) || die "cmake: expected version 3.23 or newer, found none that starts"
  NINJA=$(find_tool ninja) || die "ninja: expected one in PATH, found none that starts"
  CTEST=$(dirname "$CMAKE")/ctest
  export CMAKE CTEST NINJA
}

# configure BUILD_FOLDER ARGUMENT...: runs CMake quietly; its output is shown where it fails.
configure() {
  local folder=$1
  shift
  mkdir -p "$folder"
  if ! "$CMAKE" "$@" -D CMAKE_MAKE_PROGRAM="$NINJA" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    is_debian || name_packages_elsewhere
    die "the build could not be configured (CMake's output is above)"
  fi
}

# Cores that this process may use, not those of the machine.
cores() { nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# compile_jobs: as many as there are cores, fewer where memory is short (about 1.2 GB a compiler).
compile_jobs() {
  local jobs kilobytes
  jobs=$(cores)
  kilobytes=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo 2>/dev/null || true)
  if [[ -n $kilobytes ]] && ((jobs > kilobytes / 1200000)); then
    jobs=$((kilobytes / 1200000))
  fi
  echo $((jobs > 1 ? jobs : 1))
}
