# SPDX-License-Identifier: Apache-2.0
#
# Runs the `tandem` command for the tests beside it. TANDEM_COMMAND in the environment is the
# command. Every run has a time limit, ends what it leaves behind, and refuses a traceback or a
# crash. Start reading at CommandTest.tandem().
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

COMMAND = os.environ.get("TANDEM_COMMAND", "tandem")
LIMIT = 120  # seconds: generous, the machine may be busy

OK, NOT_VERIFIED, BAD_USAGE, FAILURE = 0, 1, 2, 3


def clean_environment(**changes):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_")}
    env.update(changes)
    return env


def processes_of(session):
    """Processes of a session that still run (a zombie does not)."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        state, parent, _, sid = text.rpartition(")")[2].split()[:4]
        if int(sid) == session and state != "Z":
            found.append((int(stat.parent.name), int(parent)))
    return found


def rank_of(pid):
    """The rank that a process is by its environment; None before it is one."""
    try:
        for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"TANDEM_RANK="):
                return int(entry[len(b"TANDEM_RANK="):])
    except OSError:
        pass
    return None


class Started:
    """A command in a session and a process group of its own, as a terminal starts one."""

    def __init__(self, arguments, cwd, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
        self.process = subprocess.Popen(
            arguments, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            text=True, start_new_session=True)
        self.pid = self.process.pid

    def ranks(self, count):
        """Waits until `count` rank processes run; their pids in rank order."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            pids = {rank_of(pid): pid for pid, _ in processes_of(self.pid)}
            if all(rank in pids for rank in range(count)):
                return [pids[rank] for rank in range(count)]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"{count} ranks never ran: {self.finish()}")

    def interrupt(self, number=signal.SIGINT):
        """What Ctrl-C does: the signal goes to the foreground group, which ranks are not in."""
        os.killpg(self.pid, number)

    def finish(self):
        try:
            out, err = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            raise
        return Finished(self.process.returncode, out, err, self.pid)

    def end(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Finished:
    def __init__(self, code, out, err, group):
        self.code, self.out, self.err, self.group = code, out or "", err or "", group

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, *arguments, env=None, **streams):
        started = Started([COMMAND, *map(str, arguments)], self.folder,
                          clean_environment(**(env or {})), **streams)
        self.addCleanup(started.end)
        return started

    def tandem(self, *arguments, code=OK, env=None):
        """Runs to the end, expects the exit code, and nothing left behind."""
        done = self.start(*arguments, env=env).finish()
        self.assertEqual(done.code, code, f"{arguments}: {done}")
        self.assert_nothing_left(done)
        return done

    def refuse(self, *arguments, names, code=BAD_USAGE, env=None):
        """Expects an error that names these values, on standard error only."""
        done = self.tandem(*arguments, code=code, env=env)
        for name in names:
            self.assertIn(name, done.err, f"{arguments}: {done}")
        for line in done.err.splitlines():
            self.assertTrue(line.startswith("tandem: "), f"{arguments}: {done}")
        self.assertEqual(done.out, "", f"{arguments}: {done}")
        return done

    def assert_nothing_left(self, done):
        # A child of a rank that was killed may still be ending.
        deadline = time.monotonic() + 5
        while processes_of(done.group) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(processes_of(done.group), [], f"processes are left: {done}")
        self.assertNotIn("terminate called", done.err)
        partial = [str(p) for p in self.folder.rglob("*.partial")]
        self.assertEqual(partial, [])
