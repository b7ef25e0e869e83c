#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Whether an installed shared library exports its API and nothing else: names of namespace tandem (or
# tandem::mpi) themselves, and of the rooms below it exactly those that a list allows. Run by
# install_test.sh.
#
#   check_exports.py LIBRARY [LIST]     LIST: one class or function a line, # begins a comment
import pathlib
import re
import subprocess
import sys

ROOMS = {path.name for path in (pathlib.Path(__file__).resolve().parents[2] / "src").iterdir()
         if path.is_dir()} - {"mpi"}
def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", "-C", library], check=True,
                         capture_output=True, text=True).stdout
    for line in out.splitlines():
        _, kind, name = line.split(None, 2)
        yield kind, name


def scopes(name):
    """tandem, symm, World, tell: the scopes of a demangled name, without arguments and result."""
    plain, depth = "", 0
    for c in name:
        if c == "(" and depth == 0:
            break
        depth += c in "<("
        plain += c if depth == 0 else ""
        depth -= c in ">)"
    return re.sub(r"\[abi:\w+\]", "", plain.split()[-1]).split("::")


def main():
    library = sys.argv[1]
    allowed = set()
    if len(sys.argv) > 2:
        for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
            if line.split("#")[0].strip():
                allowed.add(line.split("#")[0].strip())
    used, wrong, api = set(), [], 0
    for kind, name in exported(library):
        parts = scopes(name)
        if parts[0] != "tandem":
            wrong.append(f"not of tandem: {kind} {name}")
        elif parts[1] in ROOMS:
            matches = {"::".join(parts[1:n]) for n in range(2, len(parts) + 1)} & allowed
            if matches:
                used |= matches
            else:
                wrong.append(f"internal, and not listed: {kind} {name}")
        else:
            api += 1
    wrong += [f"listed, but not exported: {name}" for name in sorted(allowed - used)]
    print(f"{library}: {api} names of the API, {len(used)} listed internal ones, "
          f"{len(wrong)} that should not be")
    for line in wrong:
        print(f"  {line}")
    return 1 if wrong or api == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
