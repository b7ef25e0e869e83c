#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails when a C++ file is not laid out as .clang-format says. Run by ctest as structure.format.
# clang-format lays out differently from version to version; 14, which Debian 12 and Ubuntu 22.04
# have, decides, and without it the test is skipped (exit code 77).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for tool in clang-format-14 clang-format; do
  if command -v "$tool" >/dev/null && [[ $("$tool" --version) == *"version 14."* ]]; then
    find include src tools tests bench examples -name 'build*' -prune -o \
      \( -name '*.h' -o -name '*.cc' \) -print0 |
      xargs -0 "$tool" --dry-run -Werror
    exit 0
  fi
done
echo "clang-format 14 is not installed"
exit 77
