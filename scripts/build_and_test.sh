#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Configures one preset, builds it and runs its tests. test.sh calls it for the whole; the tests
# sanitize.address, sanitize.thread and build.clang call it for a build of their own. With --label
# only the test programs that carry the label are built and run: a sanitizer build of everything
# would cost more time than it finds errors.
#
#   scripts/build_and_test.sh --preset NAME [--build FOLDER] [--label LABEL] [-- CTEST OPTIONS]
set -euo pipefail

preset='' build='' label=''
while (($#)); do
  case $1 in
    --preset) preset=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --label) label=$2; shift 2 ;;
    --) shift; break ;;
    *) echo "build_and_test.sh: unknown option '$1'" >&2; exit 2 ;;
  esac
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${build:-build/$preset}
mkdir -p "$build"

# Shows a step's output only where somebody watches, or when it fails.
step() {
  local name=$1 log=$build/$1.log
  shift
  echo "[$preset] $name"
  if [[ -t 1 ]]; then
    "$@"
  else
    "$@" >"$log" 2>&1 || { grep -v '^\[[0-9]*/[0-9]*\] [BL]' "$log" >&2; exit 1; }
  fi
}

step configure cmake --preset "$preset" -B "$build"

targets=(all)
selection=()
if [[ $label ]]; then
  # A test has the name of its program: tandem_test() in tests/CMakeLists.txt.
  selection=(-L "^$label\$")
  mapfile -t targets < <(ctest --test-dir "$build" -N "${selection[@]}" |
                         sed -n 's/^ *Test *#[0-9]*: //p')
  if ((${#targets[@]} == 0)); then
    echo "build_and_test.sh: no test carries the label '$label'" >&2
    exit 1
  fi
fi
step build cmake --build "$build" --target "${targets[@]}"

# A report without a stack says little; a data race fails the test at once.
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

# GCC 12's ThreadSanitizer stops at start-up on kernels that randomise addresses over more bits
# than it knows (Ubuntu's since 6.5); without randomisation it runs.
runner=()
if [[ $preset == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
  runner=(setarch "$(uname -m)" -R)
fi

# Most tests sleep half of their time; more than a few at once would only make them wait for cores.
jobs=$(nproc)
((jobs <= 4)) || jobs=4

echo "[$preset] test"
exec "${runner[@]}" ctest --test-dir "$build" --output-on-failure --no-label-summary -j "$jobs" \
  "${selection[@]}" "$@" </dev/null
