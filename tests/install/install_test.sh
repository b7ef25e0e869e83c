#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs a finished build into an empty prefix, then does as a user would: builds examples/ with
# nothing but that prefix, and runs them with the installed command. ctest runs it as
# install.package, for the static library and, in the clang build, for the shared one.
#
#   install_test.sh BUILD_FOLDER WORK_FOLDER
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
rm -rf "$2"
mkdir -p "$2"
work=$(realpath "$2")
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >"$work/install.log"
cp -r "$source/examples" "$work/source"
cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$work/build"

# The header set that is installed is the public one, whole.
diff <(cd "$source/include" && find . -type f | sort) <(cd "$prefix/include" && find . -type f | sort)

# Nothing of the build may be needed any longer: no loader path, no variable.
cd "$work/build"
env -i PATH="$prefix/bin:/usr/bin:/bin" tandem --version
env -i PATH="$prefix/bin:/usr/bin:/bin" tandem launch -n 2 -- ./allgather_gemm | tee output.txt
grep -q '^2 ranks: C is 512 x 512' output.txt
env -i ./thread_ranks

# The part for MPI is there when it was built, and only who asks for it needs an MPI.
if find "$prefix" -name tandem-mpi-targets.cmake | grep -q .; then
  mkdir -p "$work/mpi"
  cat >"$work/mpi/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES CXX)
find_package(tandem REQUIRED COMPONENTS mpi)
add_executable(user main.cc)
target_link_libraries(user PRIVATE tandem::mpi)
TEXT
  cat >"$work/mpi/main.cc" <<'TEXT'
#include <tandem/mpi.h>
#include <tandem/tandem.h>
int main() { return tandem::mpi::make_world(MPI_COMM_WORLD).ok() ? 1 : 0; }  // MPI never began
TEXT
  cmake -S "$work/mpi" -B "$work/mpi/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
  cmake --build "$work/mpi/build"
  "$work/mpi/build/user"
fi

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tandem.pc)")
export PKG_CONFIG_PATH
libraries=$(find "$prefix" -name 'libtandem.*' -printf '%h\n' | sort -u)
for how in '' --static; do
  read -ra flags < <(pkg-config --cflags --libs $how tandem)
  c++ -std=c++20 "$source/examples/thread_ranks.cc" "${flags[@]}" -o "by_pkg_config$how"
  LD_LIBRARY_PATH=$libraries "./by_pkg_config$how"
done

# A shared library exports the API, and of the rooms what is listed.
if [[ -e $libraries/libtandem.so ]]; then
  python3 -B "$source/tests/install/check_exports.py" "$libraries"/libtandem.so \
    "$source/tests/install/internal_api.txt"
  if [[ -e $libraries/libtandem_mpi.so ]]; then
    python3 -B "$source/tests/install/check_exports.py" "$libraries"/libtandem_mpi.so
  fi
fi
