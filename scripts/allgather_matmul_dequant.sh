#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The runner of the CATCCOS "AllGather + MatMul + Dequant" example, on CPU ranks: for each line
# M,K,N of a list of shapes it generates int8 data, runs the operator with one rank bound to each
# device, verifies every rank's result exactly, and measures. All of that is `tandem trial`; this
# script finds or builds the command, and translates. Start reading at main().
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# For tests and packagers: a build folder that is configured already.
build=${TANDEM_BUILD_DIR:-$root/build/release}
# shellcheck source=scripts/build_command.sh
source "$root/scripts/build_command.sh"

usage() {
  cat <<'TEXT'
Usage: scripts/allgather_matmul_dequant.sh DEVICES [SHAPES.csv] [-- OPTIONS]

Runs AllGather + INT8 MatMul + bias + dequantisation on random data, verifies every element, and
reports the speed.

  DEVICES      one rank for each, as in 0,1: the i-th NUMA node where the machine has several, else
               the i-th core
  SHAPES.csv   columns M,K,N; M is the rows of each rank (default scripts/test_shapes.csv)
  OPTIONS      of `tandem trial`, as in --scale-ops 3.1e10 or --accumulators

Environment:
  debug=1      matrices of ones and scales of 0.5, to tell results in the head
  output=DIR   folder for the files (default output)

Writes x1_gm_rank<i>.bin, x2_gm.bin, bias_gm.bin, scale_x2_gm.bin, golden.bin (where results are
compared as a whole), d_gm_rank<i>.bin and output_rank<i>.bin (the same matrix), with --accumulators
c_gm_rank<i>.bin, and results.csv. The files are those of the last shape.
Exit codes: 0 all pass, 1 a result is wrong, 2 bad usage, 3 anything else.

Examples:
  scripts/allgather_matmul_dequant.sh 0,1
  debug=1 scripts/allgather_matmul_dequant.sh 0,1 my_shapes.csv
  scripts/allgather_matmul_dequant.sh 0,1 -- --scale-ops 3.1e10     # large shapes with fewer rows
TEXT
}

main() {
  local positional=()
  while (($#)); do
    case $1 in
      -h | --help) usage; exit 0 ;;
      --) shift; break ;;
      -*) fail 2 "unknown option '$1'; options of tandem trial go after --" ;;
      *) positional+=("$1"); shift ;;
    esac
  done
  ((${#positional[@]} == 1 || ${#positional[@]} == 2)) ||
    fail 2 "give DEVICES, as in 0,1, and perhaps a file of shapes; see --help"
  case ${debug:-0} in
    0 | '') ;;
    1) set -- --fill ones "$@" ;;
    *) fail 2 "debug is '$debug' in the environment; it must be 0 or 1" ;;
  esac

  tandem=$build/tools/tandem
  if [[ ! -x $tandem ]]; then
    [[ ${TANDEM_BUILD_DIR:-} ]] || install_dependencies
    build_command
  fi
  exec "$tandem" trial allgather-gemm-dequant --devices "${positional[0]}" \
    --shapes "${positional[1]:-$root/scripts/test_shapes.csv}" --output "${output:-output}" "$@"
}

main "$@"
