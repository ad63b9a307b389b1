#!/usr/bin/env bash
# Installs what is missing, builds prenorm, trains a small model and lets it speak.
#
#   ./quickstart.sh              trains on addition problems and then answers sums it has never seen
#   ./quickstart.sh TEXT_FILE    trains on that text and continues it
#
# Works from any folder, as root or with sudo, on Debian and Ubuntu; elsewhere it names the packages
# to install. Started again, it builds only what changed and goes on from the state it saved.
# Set THREADS to use fewer cores than there are.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/setup.sh
source "$here/tools/setup.sh"

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
  -*)
    usage >&2
    exit 2
    ;;
esac
if (($# > 1)); then
  usage >&2
  exit 2
fi
text=
if (($# == 1)); then
  [[ -f $1 && -r $1 ]] || die "$1: expected a text file that can be read, found none"
  text=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
fi
cd "$here"
started=$SECONDS

# ---- build --------------------------------------------------------------------------------------

prepare_tools "${BUILD_PACKAGES[@]}"
build=build/quickstart
say "Building the program"
configure "$build" -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release \
  -D PRENORM_BUILD_TESTS=OFF
# NINJA_STATUS: on a terminal one line that counts; elsewhere only what goes wrong.
if [[ -t 1 ]]; then
  "$CMAKE" --build "$build" --parallel "$(compile_jobs)" --target prenorm_program ||
    die "the build failed"
else
  "$CMAKE" --build "$build" --parallel "$(compile_jobs)" --target prenorm_program \
    >"$build/build.log" 2>&1 || {
    tail -n 40 "$build/build.log" >&2
    die "the build failed"
  }
fi
printf 'built in %d s: %s\n' "$((SECONDS - started))" "$here/$build/prenorm" >&2
prenorm=$here/$build/prenorm
threads=(--threads "${THREADS:-0}")

# ---- train and generate -------------------------------------------------------------------------

# A finished run is not trained again, an interrupted one goes on; another text starts anew.
resume_or_force() {
  local mark="$1.source" sum
  sum=$(cksum <"$2")
  if [[ -e $mark && $(<"$mark") != "$sum" ]]; then echo --force; else echo --resume; fi
  printf '%s\n' "$sum" >"$mark"
}

mkdir -p run/quickstart
if [[ -n $text ]]; then
  run=run/quickstart/$(basename "${text%.*}")
  say "Training on $text"
  "$prenorm" train --config examples/quickstart_text.toml --data "$text" --out-dir "$run" \
    "$(resume_or_force "$run" "$text")" "${threads[@]}"
  say "What it writes on its own"
  "$prenorm" generate -m "$run" -n 400 "${threads[@]}"
else
  run=run/quickstart/addition problems=run/quickstart/problems
  say "Training on addition problems"
  "$prenorm" addition --write "$problems"
  "$prenorm" train --config examples/quickstart_addition.toml --data "$problems/train.txt" \
    --out-dir "$run" "$(resume_or_force "$run" "$problems/train.txt")" "${threads[@]}"
  say "Sums that it has never seen"
  "$prenorm" addition --grade "$run" --data "$problems/heldout.txt" "${threads[@]}"
fi

say "Done in $((SECONDS - started)) s"
cat <<DONE
run folder: $here/$run
report:     $here/$run/report.html
generate:   $here/$build/prenorm generate -m "$here/$run" -p TEXT
DONE
