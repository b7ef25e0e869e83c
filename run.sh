#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh checkout to a measured, verified AllGather + GEMM: installs what is missing, builds,
# makes input data in ./out, runs, measures, reports. Takes the options of the PTO "AllGather +
# GEMM" example, without its rules of divisibility and without a rebuild per shape. Start reading
# at main().
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# For tests and packagers: a build folder that is configured already, and another place for data.
build=${TANDEM_BUILD_DIR:-$root/build/release}
out=${TANDEM_OUT_DIR:-$root/out}
# shellcheck source=scripts/build_command.sh
source "$root/scripts/build_command.sh"

mode=cpu kernel=auto ranks=2
gm=2048 gk=2048 gn=1024
tiles=() threads=()

usage() {
  cat <<'TEXT'
Usage: ./run.sh [OPTIONS]

Builds Tandem, runs AllGather + GEMM on random data, verifies every bit, and reports the speed.

  -r, --run-mode MODE      cpu: ranks share memory (default); sim: over a simulated link of
                           1 Gbit/s and 50 us; mpi: ranks started by mpirun, here on this
                           machine (on several: docs/clusters.md)
  -v, --soc-version NAME   kernel target: auto (default), or one that `tandem info` lists
  -n, --n-ranks R          number of ranks, 1..64 (default 2)
      --gm M               rows of gathered A and of C, over all ranks (default 2048)
      --gk K               columns of A, rows of B (default 2048)
      --gn N               columns of B and C (default 1024)
      --base-m ROWS        rows of a tile of A (default: automatic)
      --base-n COLUMNS     columns of a tile of A (default: automatic)
      --compute-blocks T   compute threads per rank (default: cores / ranks)
      --comm-blocks L      communication lanes per rank, 1..16 (default 1)
  -h, --help               show this text

Writes out/pe_<rank>_a.bin, out/pe_<rank>_b.bin (f16, B transposed), out/golden.bin and
out/output_rank<rank>.bin (f32).
Exit codes: 0 verified, 1 verification failed, 2 bad usage, 3 anything else.

Examples:
  ./run.sh
  ./run.sh -n 4 --gm 4096 --gk 2048 --gn 1536
  ./run.sh -r mpi -n 2
  ./run.sh -r sim -n 3 --gm 1000 --gk 777 --gn 131
TEXT
}

parse() {
  while (($#)); do
    case $1 in
      -h | --help) usage; exit 0 ;;
      --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
      -r | --run-mode | -v | --soc-version | -n | --n-ranks | --gm | --gk | --gn | --base-m | \
        --base-n | --compute-blocks | --comm-blocks)
        (($# > 1)) || fail 2 "$1 needs a value; see ./run.sh --help" ;;
      *) fail 2 "unknown option '$1'; see ./run.sh --help" ;;
    esac
    case $1 in
      -r | --run-mode) mode=$2 ;;
      -v | --soc-version) kernel=$2 ;;
      -n | --n-ranks) ranks=$(number "$1" "$2" 1 64) ;;
      --gm) gm=$(number "$1" "$2" 0) ;;
      --gk) gk=$(number "$1" "$2" 1) ;;
      --gn) gn=$(number "$1" "$2" 1) ;;
      --base-m) tiles+=(--tile-m "$(number "$1" "$2" 0)") ;;
      --base-n) tiles+=(--tile-k "$(number "$1" "$2" 0)") ;;
      --compute-blocks) threads+=(--compute-threads "$(number "$1" "$2" 1 1024)") ;;
      --comm-blocks) threads+=(--comm-threads "$(number "$1" "$2" 1 16)") ;;
    esac
    shift 2
  done
  case $mode in
    cpu | sim | mpi) ;;
    npu) fail 2 "run mode npu: this build has no NPU backend; use -r cpu, or -r sim for a link" ;;
    *) fail 2 "unknown run mode '$mode'; it is cpu, sim or mpi" ;;
  esac
}

# number OPTION VALUE LEAST [MOST]
number() {
  local most=${4:-1099511627776}
  if [[ ! $2 =~ ^[0-9]{1,15}$ ]] || ((10#$2 < $3 || 10#$2 > most)); then
    fail 2 "$1 is '$2'; it must be an integer in $3..$most"
  fi
  echo "$((10#$2))"
}

# Two runs at once would share the build folder, the data and the cores.
lock() {
  mkdir -p "$build" "$out" || fail 3 "cannot create $build or $out; check the permissions"
  command -v flock >/dev/null || return 0
  exec {lock_fd}>"$out/.lock" || fail 3 "cannot write to $out; check the permissions"
  if ! flock -n "$lock_fd"; then
    info "Waiting for another run.sh in this folder"
    flock "$lock_fd"
  fi
}

check_kernel() {
  [[ $kernel == auto ]] && return
  local targets
  targets=$("$tandem" info --json | sed -n 's/.*"target": "\(.*\)".*/\1/p' | sort -u | paste -sd ' ')
  [[ " $targets " == *" $kernel "* ]] ||
    fail 2 "-v/--soc-version is '$kernel'; this build has the kernel targets: auto $targets"
}

# Runs a tandem command with its text prefixed; its exit code is ours.
tandem_step() {
  "$@" | sed 's/^/[INFO] /' || exit "${PIPESTATUS[0]}"
}

# Sets `launch`: what starts the command for all ranks.
choose_launcher() {
  launch=("$tandem")
  [[ $mode == mpi ]] || return 0
  launch=(mpirun -n "$ranks")
  if mpirun --version | grep -q "Open MPI"; then
    # More ranks than cores are fine here, and whoever builds as root may run as root.
    launch+=(--oversubscribe)
    ((EUID != 0)) || launch+=(--allow-run-as-root)
  fi
  launch+=("$tandem")
}

main() {
  parse "$@"
  lock
  [[ $mode == mpi ]] && with_mpi=yes
  [[ ${TANDEM_BUILD_DIR:-} ]] || install_dependencies
  build_command
  check_kernel
  local launch
  choose_launcher

  local options=(-n "$ranks" --m "$gm" --k "$gk" --n "$gn")
  info "Generating inputs and the golden result"
  tandem_step "$tandem" gen allgather-gemm "${options[@]}" --data-dir "$out" --reuse

  options+=(--kernel "$kernel" "${tiles[@]}" "${threads[@]}")
  [[ $mode == sim ]] && options+=(--transport sim --link "1Gbit/s,50us")
  [[ $mode == mpi ]] && options+=(--transport mpi)
  info "Running"
  rm -f "$out"/output_rank*.bin
  tandem_step "${launch[@]}" run allgather-gemm "${options[@]}" --data-dir "$out"

  info "Running warmup and benchmark"
  local report code=0
  report=$("${launch[@]}" bench allgather-gemm "${options[@]}") || code=$?
  if ((code == 0)); then
    echo "[SUCCESS] $report"
  else
    [[ -z $report ]] || echo "[FAILED] $report"
    exit "$code"
  fi
}

main "$@"
