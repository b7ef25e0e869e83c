#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Compiles each public header alone, with warnings as errors, seeing nothing but include/: a header
# that needs another one included first, or a third-party one, fails. Run by ctest as
# structure.headers.
#
#   check_headers.py COMPILER INCLUDE_FOLDER [MPI_INCLUDE_FOLDER...]
#
# tandem/mpi.h alone needs MPI: without folders for it, it is left out.
import pathlib
import subprocess
import sys

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
         "-Wconversion", "-Werror"]


def compiles(compiler, folder, header, system):
    # Included twice: the second must be a no-op.
    text = f'#include "{header}"\n#include "{header}"\n'
    done = subprocess.run([compiler, *FLAGS, "-I", str(folder), *system, "-x", "c++", "-"], input=text,
                          text=True, capture_output=True, check=False)
    if done.returncode != 0:
        print(f"{header} does not compile alone:\n{done.stderr}")
    return done.returncode == 0


def main():
    compiler, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    headers = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.h"))
    mpi = [word for path in sys.argv[3:] if path for word in ("-isystem", path)]
    if not mpi:
        headers.remove("tandem/mpi.h")
    failed = [header for header in headers
              if not compiles(compiler, folder, header, mpi if header == "tandem/mpi.h" else [])]
    print(f"{len(headers)} headers, {len(failed)} failed")
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
