#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the distribution's packages that Tandem needs, and only those that are missing.
# run.sh calls it to build and run (with --mpi for -r mpi), test.sh with --tests. Made for Debian 12,
# as root or through sudo. Silent when nothing is missing; exits with 3 and the exact apt line when
# it may not install. What each package is for: docs/dependencies.md.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config
          libhwy-dev libhwloc-dev libcli11-dev libfmt-dev nlohmann-json3-dev)
mpi_packages=(openmpi-bin libopenmpi-dev)
# MPICH is tested beside Open MPI, which stays the default of mpirun and mpicxx. iproute2 makes the
# network of tests/cluster.
test_packages=("${mpi_packages[@]}" mpich libmpich-dev libgtest-dev libgmock-dev libbenchmark-dev
               clang clang-format python3 g++-aarch64-linux-gnu qemu-user-static iproute2)

usage() {
  cat <<'TEXT'
Usage: scripts/install_dependencies.sh [--mpi] [--tests]

Installs the missing packages to build and run Tandem.
  --mpi     also those for ranks on several machines
  --tests   also those that the tests need
  -h        show this text
Exit codes: 0 everything is there, 1 apt failed, 2 bad usage, 3 not allowed to install.
TEXT
}

while (($#)); do
  case $1 in
    --mpi) packages+=("${mpi_packages[@]}") ;;
    --tests) packages+=("${test_packages[@]}") ;;
    -h | --help) usage; exit 0 ;;
    *) echo "install_dependencies.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_dependencies.sh: this system has no apt; install the equivalents of:" >&2
  echo "  ${packages[*]}" >&2
  exit 3
fi

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
((${#missing[@]})) || exit 0

# Without a terminal sudo must not ask for a password: nobody would answer.
as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  elif command -v sudo >/dev/null && [[ -t 0 && -t 2 ]]; then
    as_root=(sudo)
  else
    echo "Tandem needs packages that are not installed, and this user may not install them. Run:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 3
  fi
fi

echo "Installing with apt: ${missing[*]}"
as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
"${as_root[@]}" update </dev/null ||
  echo "install_dependencies.sh: 'apt-get update' failed; trying with the lists at hand" >&2
if ! "${as_root[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null; then
  echo "install_dependencies.sh: apt could not install: ${missing[*]}" >&2
  exit 1
fi
