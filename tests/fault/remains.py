# SPDX-License-Identifier: Apache-2.0
#
# What a job may have left: processes, memory files, abstract sockets, System V, files. Other jobs of
# the machine may come and go meanwhile, so each finding is traced to the job: by a mark in the
# environment of its processes, by a folder of its own for temporary files, by who holds a socket.
import os
import pathlib
import time

MARK = "TANDEM_TEST_MARK"
PATIENCE = 5.0  # seconds in which what is ending may end


def processes(mark):
    """Living processes of the job; a zombie is its parent's business."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            pass
    return found


def children(pid):
    """All descendants."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            direct = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in direct:
            found += [child, *children(child)]
    return found


def system_v(pids):
    """Shared memory made by one of these; semaphores and queues do not say by whom."""
    try:
        lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return []
    words = [line.split() for line in lines]
    return [f"System V shm {word[1]}" for word in words if int(word[4]) in pids]


def shared_files():
    """Those of Tandem, which makes none: what an MPI makes is in the job's own folder."""
    try:
        return [f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "tandem" in name]
    except OSError:
        return []


def held():
    """What the descriptors of all processes that can be asked lead to, and by whom."""
    found = {}
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            found.setdefault(os.readlink(link), set()).add(int(link.parts[2]))
        except OSError:
            pass
    return found


def orphaned_sockets():
    """Abstract sockets of worlds that nobody holds."""
    try:
        lines = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
    except OSError:
        return set()
    named = [line.split() for line in lines if "@tandem-" in line]
    if not named:
        return set()
    holders = held()
    return {f"socket {words[7]}" for words in named if f"socket:[{words[6]}]" not in holders}


def find(folder, pids, not_ours):
    found = [f"process {pid}" for pid in processes(folder.name)]
    for top in folder.iterdir():
        if top.name.startswith(tuple(not_ours)):
            continue
        found += [f"file {path}" for path in [top, *top.rglob("*")] if not path.is_dir()]
    found += system_v(pids)
    found += shared_files()
    # A memory file lives as long as somebody holds it: with the processes of the job it is gone,
    # unless one of those was handed on, to this process for instance.
    found += [f"memory file {target}" for target, by in held().items()
              if target.startswith("/memfd:tandem") and os.getpid() in by]
    return found + sorted(orphaned_sockets())


def left(folder, pids, not_ours=()):
    """What is left of the job of these pids, whose mark is the name of its temporary folder. What in
    there begins like `not_ours` may stay. Waits for what is ending."""
    end = time.monotonic() + PATIENCE
    while True:
        found = find(folder, pids, not_ours)
        if not found or time.monotonic() > end:
            return [f"left: {what}" for what in found]
        time.sleep(0.01)
