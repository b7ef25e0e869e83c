#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program on R MPI ranks of this machine, however few its cores are.
#
#   run_mpi.sh MPIEXEC R PROGRAM [ARGUMENTS]
set -euo pipefail
mpiexec=$1 ranks=$2
shift 2
options=(-n "$ranks")
if "$mpiexec" --version 2>&1 | grep -qE "Open ?(MPI|RTE)"; then
  # Otherwise it refuses more ranks than cores, refuses root, and binds ranks to cores that other
  # tests use.
  options+=(--oversubscribe --bind-to none)
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
fi
exec "$mpiexec" "${options[@]}" "$@"
