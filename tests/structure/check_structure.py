#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Checks the shape of the source tree: which room may include which (docs/HACKING.md), where system
# calls may live, names, file length, licence lines. ctest runs it as structure.rules;
# check_structure_test.py proves that every rule can fail. Start reading at violations().
#
#   check_structure.py [ROOT]     prints one line per violation; exits 1 when there is any
import pathlib
import re
import sys

MAX_LINES = 500

# Each room of src/ and the rooms that it may include, itself apart.
ROOMS = {
    "base": set(),
    "platform": {"base"},
    "symm": {"platform", "base"},
    "mpi": {"symm", "platform", "base"},
    "transport": {"symm", "platform", "base"},
    "tile": {"base"},
    "block": {"tile", "base"},
    "stream": {"block", "tile", "transport", "symm", "platform", "base"},
    "op": {"stream", "block", "tile", "transport", "symm", "platform", "base"},
}

# Which <angle/…> headers each folder may include beyond the C++ standard library.
LIBRARIES = {
    "include": [],
    "src": ["fmt/"],
    "src/platform": ["fmt/", "hwloc", "*.h"],
    "src/mpi": ["fmt/", "mpi.h"],
    "src/tile": ["fmt/", "hwy/", "emmintrin.h", "immintrin.h", "arm_neon.h"],
    "src/block": ["fmt/", "hwy/"],
    "tools": ["fmt/", "CLI/", "nlohmann/", "sys/ioctl.h", "unistd.h", "tandem/"],
    "examples": ["tandem/"],
}

CODE = {".h", ".cc", ".cpp", ".hpp"}
SOURCES = CODE | {".py", ".sh", ".cmake"}
FOLDERS = ["include", "src", "tools", "tests", "bench", "examples", "cmake", "scripts", "python"]
FORBIDDEN_NAMES = {"util", "utils", "common", "misc", "helper", "helpers"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
STANDARD = re.compile(r"[a-z_0-9]+")
ROOM_USES = re.compile(r"tandem_room\(\s*(\w+)\s+USES\s+([a-z\s]+)")


def source_files(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            if any(part.startswith((".", "build", "__pycache__")) for part in relative.parts):
                continue
            if path.is_file():
                yield relative
    for name in ["CMakeLists.txt", "run.sh", "test.sh", ".ci/run"]:
        if (root / name).is_file():
            yield pathlib.PurePath(name)


def is_source(path):
    return path.suffix in SOURCES or path.name == "CMakeLists.txt" or str(path) == ".ci/run"


def includes(text):
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] == "<", match[2]


def may_include_library(path, header):
    if STANDARD.fullmatch(header):
        return True
    if str(path) == "include/tandem/mpi.h":  # the one public header that is for users of MPI
        return header == "mpi.h"
    folder = "/".join(path.parts[:2]) if path.parts[0] == "src" else path.parts[0]
    allowed = LIBRARIES.get(folder, LIBRARIES.get(path.parts[0]))
    if allowed is None:  # tests and benchmarks
        return True
    return any(
        header.endswith(".h") and "hwy/" not in header if entry == "*.h" else header.startswith(entry)
        for entry in allowed
    )


def include_violations(path, text):
    top = path.parts[0]
    if top not in LIBRARIES:
        return
    for number, angle, header in includes(text):
        where = f"{path}:{number}"
        if angle:
            if not may_include_library(path, header):
                yield f"{where}: <{header}> may not be included here"
            continue
        target = header.split("/")[0]
        if top in ("include", "examples"):
            if target != "tandem":
                yield f'{where}: "{header}" is not a public header'
        elif top == "tools":
            if target in ROOMS or target in ("src", "..") or "src/" in header:
                yield f'{where}: "{header}" reaches behind the public headers'
        elif target != "tandem":
            room = path.parts[1]
            if target not in ROOMS:
                yield f'{where}: "{header}" names no room and no public header'
            elif target != room and target not in ROOMS.get(room, set()):
                yield f"{where}: {room} may not include {target}"


def link_violations(path, text):
    match = ROOM_USES.search(text)
    if match and match[1] in ROOMS:
        for other in match[2].split():
            if other in ROOMS and other not in ROOMS[match[1]]:
                yield f"{path}: {match[1]} may not use {other}"


def violations(root):
    """Yields one message per broken rule in the tree under `root`."""
    for path in source_files(root):
        stems = {part.split(".")[0] for part in path.parts}
        for name in sorted(stems & FORBIDDEN_NAMES):
            yield f"{path}: '{name}' says nothing about what is inside; name the thing"
        if len(path.parts) > 2 and path.parts[0] == "src" and path.parts[1] not in ROOMS:
            yield f"{path}: src/{path.parts[1]} is not a room"
        if not is_source(path):
            continue
        text = (root / path).read_text(encoding="utf-8")
        lines = text.splitlines()
        head = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
            yield f"{path}: the first line must be the SPDX licence line"
        if len(lines) > MAX_LINES:
            yield f"{path}: {len(lines)} lines, at most {MAX_LINES} allowed"
        if path.suffix in CODE:
            yield from include_violations(path, text)
        if path.name == "CMakeLists.txt":
            yield from link_violations(path, text)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(violations(root))
    for message in found:
        print(message)
    count = sum(1 for _ in source_files(root))
    print(f"{count} files checked, {len(found)} violations")
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
