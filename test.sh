#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what the tests need, builds, and runs every test through ctest, whose closing lines are
# the last thing printed. The default preset, `test`, is the Release build plus the checks that
# build the project again: both sanitizer builds, the clang build and the installed package.
# .ci/run calls this. Other presets: CMakePresets.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'TEXT'
Usage: ./test.sh [--preset NAME] [-R REGEX] [-- CTEST OPTIONS]

Builds Tandem with its tests and runs them.
  --preset NAME   test (default), dev, asan-ubsan, tsan or clang; builds in build/NAME
  -R REGEX        run only the tests whose name matches
  -h              show this text

Examples:
  ./test.sh                      everything, as CI does
  ./test.sh -R structure         the source checks alone
  ./test.sh --preset tsan        the thread-rank tests under ThreadSanitizer
TEXT
}

preset='test'
ctest_options=()
while (($#)); do
  case $1 in
    --preset) preset=${2:?--preset needs a name}; shift 2 ;;
    -R) ctest_options+=(-R "${2:?-R needs a regular expression}"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; ctest_options+=("$@"); break ;;
    *) echo "test.sh: unknown option '$1'; see ./test.sh --help" >&2; exit 2 ;;
  esac
done

scripts/install_dependencies.sh --tests

selection=()
case $preset in
  asan-ubsan) selection=(--label asan) ;;
  tsan) selection=(--label tsan) ;;
esac
exec scripts/build_and_test.sh --preset "$preset" "${selection[@]}" -- "${ctest_options[@]}"
