# SPDX-License-Identifier: Apache-2.0
#
# How the runners (run.sh, scripts/allgather_matmul_dequant.sh) come to a built `tandem` command:
# they set `root` and `build` (and `with_mpi` where ranks come from mpirun), source this file and call
# install_dependencies and build_command, which sets `tandem`. Start reading at build_command().

info() { echo "[INFO] $*"; }

fail() {
  local code=$1
  shift
  echo "[ERROR] $*" >&2
  exit "$code"
}

install_dependencies() {
  local options=() tools=(cmake ninja pkg-config c++)
  if [[ ${with_mpi:-} ]]; then
    options=(--mpi)
    tools+=(mpirun mpicxx)
  fi
  if command -v dpkg-query >/dev/null; then
    "$root/scripts/install_dependencies.sh" "${options[@]}" || exit 3
    return
  fi
  local tool
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null ||
      fail 3 "'$tool' is missing, and this system has no apt to install it with"
  done
}

# Shows a step's output only where somebody watches, or when it fails.
quietly() {
  if [[ -t 1 ]]; then
    "$@"
  else
    local log
    log=$("$@" 2>&1) || { echo "$log" >&2; return 1; }
  fi
}

build_command() {
  local configured=yes options=()
  [[ -f $build/build.ninja || -f $build/Makefile ]] || configured=
  if [[ ${with_mpi:-} ]]; then
    options=(-DTANDEM_MPI=ON)
    # What was configured before there was an MPI goes without.
    grep -q '^MPI_mpi_LIBRARY:.*=/' "$build/CMakeCache.txt" 2>/dev/null || configured=
  fi
  if [[ ! $configured ]]; then
    info "Configuring in ${build#"$root"/}"
    (cd "$root" && quietly cmake --preset release -B "$build" "${options[@]}") ||
      fail 3 "cmake failed"
  fi
  info "Building"
  quietly cmake --build "$build" --target tandem_command || fail 3 "the build failed"
  tandem=$build/tools/tandem
}
