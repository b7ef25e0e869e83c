#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the computing rooms for 64-bit Arm and runs their tests under qemu: the NEON kernels must
# give the same bits as the scalar reference. ctest calls it as cross.aarch64.
#
#   tests/cross/aarch64.sh BUILD_FOLDER
set -euo pipefail
build=${1:?usage: aarch64.sh BUILD_FOLDER}
cd "$(dirname "${BASH_SOURCE[0]}")"

for tool in aarch64-linux-gnu-g++ qemu-aarch64-static; do
  command -v "$tool" >/dev/null ||
    { echo "aarch64.sh: $tool is missing; run scripts/install_dependencies.sh --tests" >&2; exit 1; }
done

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
  -DCMAKE_EXE_LINKER_FLAGS=-static \
  -DCMAKE_CROSSCOMPILING_EMULATOR=/usr/bin/qemu-aarch64-static >/dev/null
cmake --build "$build"
exec ctest --test-dir "$build" --output-on-failure
