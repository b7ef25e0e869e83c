#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests that have several ranks, processes or faults again and again, in random order, with
# random delays at protocol steps and random seeds, until one fails or the time is over. What CI runs
# once it runs for minutes or hours. A failure is told with one command that repeats it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/soak.sh [--minutes N] [--seed S] [--load] [-R REGEX] [--build FOLDER]...

Runs multi-rank, MPI and fault tests in random order until the first failure.
  --minutes N      stop after so many minutes (60); what runs then is let end
  --seed S         of all that is random; the time of the day when not given
  --load           two busy jobs beside the tests in every other round
  -R REGEX         only tests whose name matches
  --build FOLDER   a build folder to take tests from; may be given several times. When not given,
                   Release, AddressSanitizer and ThreadSanitizer builds are made in build/
  -h, --help       show this text

A line for each round: its number, seconds, folder, test, seed and delays. Exit code 0: no failure;
1: a test failed, and the last lines say how to repeat it; 2: wrong usage.

Examples:
  scripts/soak.sh --minutes 60 --load
  scripts/soak.sh --minutes 10 --seed 7 --build build/dev -R '^mpi'
TEXT
}

minutes=60 seed=$(date +%s) load='' only='.' builds=()
while (($#)); do
  case $1 in
    --minutes) minutes=${2:?--minutes needs a number}; shift 2 ;;
    --seed) seed=${2:?--seed needs a number}; shift 2 ;;
    --load) load=yes; shift ;;
    -R) only=${2:?-R needs a regular expression}; shift 2 ;;
    --build) builds+=("${2:?--build needs a folder}"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "soak.sh: unknown option '$1'; see scripts/soak.sh --help" >&2; exit 2 ;;
  esac
done
if ! [[ $minutes =~ ^[0-9]+$ && $seed =~ ^[0-9]+$ ]]; then
  echo "soak.sh: --minutes is '$minutes', --seed is '$seed'; both must be whole numbers" >&2
  exit 2
fi

if ((${#builds[@]} == 0)); then
  # ctest's -N: build, and list the tests instead of running them.
  scripts/build_and_test.sh --preset test -- -N >/dev/null
  scripts/build_and_test.sh --preset asan-ubsan --label asan -- -N >/dev/null
  scripts/build_and_test.sh --preset tsan --label tsan -- -N >/dev/null
  builds=(build/test build/asan-ubsan build/tsan)
fi

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

# For each test of a build folder that is built, of a sanitizer build those with its label: its limit
# in seconds, its name, and its command line with the environment that it needs, quoted for the shell.
tests_of() {
  local runner='' label=''
  ! grep -q '^TANDEM_SANITIZE:.*=address$' "$1/CMakeCache.txt" || label=asan
  ! grep -q '^TANDEM_SANITIZE:.*=thread$' "$1/CMakeCache.txt" || label=tsan
  # As in build_and_test.sh: GCC 12's ThreadSanitizer and addresses randomised over many bits.
  if [[ $label == tsan ]]; then
    runner="setarch $(uname -m) -R"
    $runner true 2>/dev/null || runner=''
  fi
  ctest --test-dir "$1" --show-only=json-v1 | python3 -c '
import json, os, re, shlex, sys
rooms = re.compile("(multi|mpi|mpich|fault|symm|transport|cluster)[._]")
runner = sys.argv[2].split()
for test in json.load(sys.stdin)["tests"]:
    command = test.get("command")
    if not command or not rooms.match(test["name"]) or not re.search(sys.argv[1], test["name"]):
        continue
    if not all(os.path.exists(word) for word in command if word.startswith("/")):
        continue
    values = {p["name"]: p["value"] for p in test["properties"]}
    if sys.argv[3] and sys.argv[3] not in values.get("LABELS", []):
        continue
    env = [e for e in values.get("ENVIRONMENT", []) if not e.startswith("TANDEM_TEST_DELAYS=")]
    print(int(values.get("TIMEOUT", 600)), test["name"],
          shlex.join([*env, *runner, *command]), sep="\t")
' "$only" "$runner" "$label"
}

list=()
for build in "${builds[@]}"; do
  while IFS= read -r line; do
    list+=("$build"$'\t'"$line")
  done < <(tests_of "$build")
done
if ((${#list[@]} == 0)); then
  echo "soak.sh: no test matches '$only' in ${builds[*]}" >&2
  exit 2
fi

log=$(mktemp)
busy=()
rest() {
  if ((${#busy[@]} > 0)); then
    kill "${busy[@]}" 2>/dev/null || true
    wait "${busy[@]}" 2>/dev/null || true
  fi
  busy=()
}
trap 'rest; rm -f "$log"' EXIT

RANDOM=$((seed % 32768))
# Not in a subshell, which would not move this shell's random numbers on.
draw() { drawn=$(((RANDOM * 32768 + RANDOM) % $1)); }

echo "soak: seed $seed, $minutes minutes, ${#list[@]} tests of ${builds[*]}"
widest=(0 50 300 2000)  # microseconds of a delay
rounds=0 end=$((SECONDS + minutes * 60)) skipped=0
declare -A count=()
while ((SECONDS < end)); do
  rounds=$((rounds + 1))
  draw ${#list[@]}
  IFS=$'\t' read -r build limit name line <<<"${list[drawn]}"
  draw 99999
  own=$((1 + drawn))
  draw 4
  longest=${widest[drawn]}
  delays=''
  ((longest == 0)) || delays=$own:$longest
  draw 2
  busy_now=''
  if [[ $load && $drawn == 1 ]]; then
    busy_now=', load'
    for _ in 1 2; do
      (while :; do :; done) &
      busy+=("$!")
    done
  fi
  # Everything that the round is, in one line for the shell.
  command="env GTEST_SHUFFLE=1 GTEST_RANDOM_SEED=$own TANDEM_TEST_SEED=$own"
  [[ -z $delays ]] || command+=" TANDEM_TEST_DELAYS=$delays"
  command+=" timeout -k 10 $((limit * 4)) env $line"
  began=$SECONDS code=0
  bash -c "$command" >"$log" 2>&1 </dev/null || code=$?
  rest
  what="round $rounds, $((SECONDS - began)) s: $build $name, seed $own, delays ${delays:-none}$busy_now"
  if ((code == 77)); then
    skipped=$((skipped + 1))
    continue
  fi
  if ((code != 0)); then
    tail -n 60 "$log"
    echo "FAILED with code $code$( ((code != 124)) || echo ' (hung)'): $what"
    again=0
    for _ in 1 2 3; do
      bash -c "$command" >/dev/null 2>&1 </dev/null || again=$((again + 1))
    done
    echo "run again 3 times it failed $again times; it ran as"
    echo "  $command"
    exit 1
  fi
  count[$build]=$((${count[$build]:-0} + 1))
  echo "$what"
done

echo "soak: no failure in $rounds rounds with seed $seed ($skipped skipped)"
for build in "${builds[@]}"; do echo "  ${count[$build]:-0} rounds of $build"; done
