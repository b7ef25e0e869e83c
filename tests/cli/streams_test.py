#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Standard streams that are closed or full, files on a full disk, no /proc, hardly any memory: the
# command ends with the right code, says why where it still can, and leaves no half of a file. What
# needs a mount of its own is skipped where that is not allowed. Run by ctest as cli.streams.
import csv
import os
import resource
import subprocess
import unittest

from command import BAD_USAGE, COMMAND, FAILURE, LIMIT, OK, CommandTest, clean_environment

OP = "allgather-gemm"
SHAPE = ("--m", "20", "--k", "30", "--n", "10")
RUN = ("run", OP, *SHAPE)


def can_mount():
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"],
                          stderr=subprocess.DEVNULL).returncode == 0


class Streams(CommandTest):
    def shell(self, script, *arguments, code=OK):
        """The script, in which "$@" is the command with its arguments."""
        done = subprocess.run(["sh", "-c", script, "sh", COMMAND, *map(str, arguments)],
                              cwd=self.folder, env=clean_environment(), capture_output=True,
                              text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, code, f"{script} {arguments}: {done}")
        self.assertNotIn("terminate called", done.stderr)
        return done

    def test_closed_streams_change_nothing(self):
        # What a rank prints must not land in the memory that ranks share.
        printing = ("launch", "-n", 2, "--", "sh", "-c",
                    'i=0; while [ $i -lt 50 ]; do echo "a long line to do harm with"; '
                    'echo "another one" >&2; i=$((i+1)); done; exec "$0" "$@"',
                    COMMAND, *RUN, "--quiet")
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                self.shell(f'exec "$@" {closed}', *RUN, "--quiet")
                self.shell(f'exec "$@" {closed}', *printing)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for where in (">&-", ">/dev/full"):
            for what in (RUN, ("info",), ("--help",), ("plan", "--m", "8192")):
                done = self.shell(f'exec "$@" {where}', *what, code=FAILURE)
                self.assertIn("cannot write to standard output", done.stderr)

    def test_errors_that_cannot_be_said_keep_their_code(self):
        for where in ("2>&-", "2>/dev/full", ">&- 2>&-", ">/dev/full 2>/dev/full"):
            with self.subTest(where=where):
                for code, what in [(BAD_USAGE, ("run", "nonsense")),
                                   (BAD_USAGE, (*RUN, "--kernel", "none")),
                                   (FAILURE, ("gen", OP, *SHAPE, "--data-dir", "/proc/tandem")),
                                   (7, ("launch", "-n", 2, "--", "sh", "-c", "exit 7"))]:
                    self.shell(f'exec "$@" {where}', *what, code=code)

    def test_a_trial_whose_progress_cannot_be_printed(self):
        (self.folder / "shapes.csv").write_text("M,K,N\n8,9,10\n")
        done = self.shell('exec "$@" >/dev/full', "trial", OP, "--devices", "0", "--shapes",
                          "shapes.csv", "--time-budget", "1s", code=FAILURE)
        self.assertIn("cannot write to standard output", done.stderr)
        with open(self.folder / "output" / "results.csv") as file:
            self.assertEqual([row["result"] for row in csv.DictReader(file)], ["PASS"])

    @unittest.skipUnless(can_mount(), "no mounts of our own here (needs root)")
    def test_a_full_disk_leaves_no_part_of_a_table(self):
        (self.folder / "shapes.csv").write_text("M,K,N\n8,9,10\n")
        (self.folder / "disk").mkdir()
        bench = ("bench", OP, "--shapes", "shapes.csv", "--out", "disk/out", "--iters", 1,
                 "--warmup", 0)
        # 8 KiB, of which so much is taken: nothing fits, the table alone fits, all fits.
        for taken, code, files in [(2, FAILURE, []), (1, FAILURE, ["out.csv"]),
                                   (0, OK, ["out.csv", "out.json"])]:
            with self.subTest(taken=taken):
                done = self.shell(
                    f'unshare -m sh -ec \'mount -t tmpfs -o size=8k none disk; if [ {taken} -gt 0 ]; '
                    f'then head -c {4096 * taken} /dev/zero >disk/taken; fi; code=0; '
                    '"$@" || code=$?; rm -f disk/taken; ls -A disk >listing; '
                    'if [ -e disk/out.csv ]; then cp disk/out.csv kept; fi; exit $code\' sh "$@"',
                    *bench, code=code)
                self.assertEqual((self.folder / "listing").read_text().split(), files, done)
                if code == FAILURE:
                    self.assertIn("No space left on device", done.stderr)
                    self.assertIn("--out", done.stderr)
                else:
                    self.assertEqual(len((self.folder / "kept").read_text().splitlines()), 2)

    @unittest.skipUnless(can_mount(), "no mounts of our own here (needs root)")
    def test_no_proc(self):
        without_proc = "unshare -m sh -ec 'mount -t tmpfs none /proc; exec \"$@\"' sh \"$@\""
        done = self.shell(without_proc, *RUN, code=FAILURE)
        self.assertIn("/proc", done.stderr)
        self.assertIn("mount -t proc", done.stderr)
        done = self.shell(without_proc, "launch", "-n", 1, "--", COMMAND, *RUN, code=FAILURE)
        self.assertIn("/proc is missing", done.stderr)
        self.shell(without_proc, *RUN, "--ranks-as", "thread")

    def test_hardly_any_memory(self):
        def end_with(kib):
            limit = kib << 10
            return subprocess.run(
                [COMMAND, "plan", "--m", "8192"], cwd=self.folder, env=clean_environment(),
                capture_output=True, text=True, timeout=LIMIT,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

        # From where not even the loader finds room, up to where the command does.
        low, high = 1 << 10, 1 << 21
        while high - low > 16:
            middle = (low + high) // 2
            low, high = (low, middle) if end_with(middle).returncode == OK else (middle, high)
        refused = 0
        for kib in range(high - 1024, high, 16):
            done = end_with(kib)
            if done.returncode == 127 or "while loading shared libraries" in done.stderr:
                continue
            self.assertIn(done.returncode, (OK, FAILURE), f"{kib} KiB: {done}")
            if done.returncode == FAILURE:
                refused += 1
                self.assertTrue(done.stderr.startswith("tandem: "), f"{kib} KiB: {done}")
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    unittest.main()
