#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# `tandem launch`: what the ranks see, whose exit code is returned, signals, and that nothing is
# left running. The ranks are shell scripts. Run by ctest as cli.launch.
import os
import pathlib
import signal
import subprocess
import time
import unittest

from command import BAD_USAGE, COMMAND, FAILURE, CommandTest, clean_environment, processes_of
from terminal import Terminal

OP = "allgather-gemm"


class Launch(CommandTest):
    def launch(self, ranks, script, *options, code=0):
        return self.tandem("launch", "-n", ranks, *options, "--", "sh", "-c", script, code=code)

    def wait_for_lines(self, path, count):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if path.exists() and len(path.read_text().splitlines()) >= count:
                return
            time.sleep(0.02)
        self.fail(f"{path} never had {count} lines")

    def test_ranks_and_arguments(self):
        done = self.launch(3, 'echo "$TANDEM_RANK of $TANDEM_SIZE"; test -n "$TANDEM_FD"')
        self.assertEqual(sorted(done.out.splitlines()), ["0 of 3", "1 of 3", "2 of 3"])
        done = self.tandem("launch", "-n", 1, "--", "printf", "%s|", "-n", "--json", "a b", "--")
        self.assertEqual(done.out, "-n|--json|a b|--|")

    def test_the_first_failing_code_is_returned(self):
        done = self.launch(4, 'case $TANDEM_RANK in 2) exit 7;; 1) sleep 0.7; exit 9;; esac',
                           code=7)
        self.assertIn("rank 2 exited with code 7", done.err)
        self.assertLess(done.err.index("rank 2"), done.err.index("rank 1"))

    def test_all_are_ended_when_one_fails(self):
        started = time.monotonic()
        done = self.launch(3, 'test $TANDEM_RANK = 1 && exit 5; exec sleep 60', code=5)
        self.assertLess(time.monotonic() - started, 30)
        self.assertIn("rank 1 exited with code 5", done.err)
        self.launch(2, 'test $TANDEM_RANK = 1 && exit 5; trap "" TERM; while :; do sleep 0.05; done',
                    code=5)

    def test_a_killed_rank_is_reported(self):
        done = self.launch(2, 'test $TANDEM_RANK = 1 && kill -9 $$; exit 0', code=137)
        self.assertIn("rank 1", done.err)
        self.assertIn("SIGKILL", done.err)

    def test_signals_are_forwarded(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT,
                       signal.SIGUSR1, signal.SIGUSR2):
            log = self.folder / f"log{int(number)}"
            name = number.name[3:]
            started = self.start(
                "launch", "-n", 2, "--", "sh", "-c",
                f'trap "echo got >>{log}.got; exit 4" {name}; echo up >>{log};'
                "while :; do sleep 0.05; done")
            self.wait_for_lines(log, 2)
            os.kill(started.pid, number)  # to the launcher alone
            done = started.finish()
            self.assertEqual(done.code, 4, done)
            self.assertEqual((self.folder / f"log{int(number)}.got").read_text(), "got\ngot\n")
            self.assert_nothing_left(done)

    def test_ranks_do_not_outlive_the_launcher(self):
        log = self.folder / "log"
        started = self.start("launch", "-n", 2, "--", "sh", "-c",
                             f"echo $$ >>{log}; while :; do sleep 0.05; done")
        self.wait_for_lines(log, 2)
        os.kill(started.pid, signal.SIGKILL)
        started.finish()
        ranks = {int(pid) for pid in log.read_text().split()}
        deadline = time.monotonic() + 30
        while ranks & {pid for pid, _ in processes_of(started.pid)}:
            self.assertLess(time.monotonic(), deadline, "ranks outlived the launcher")
            time.sleep(0.02)

    def test_nothing_is_left_of_a_wrapper_whose_grandchild_ignores_signals(self):
        script = ("trap '' INT TERM HUP; echo $$ >>pids; while :; do sleep 0.1; done")
        (self.folder / "deaf").write_text(script)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            pids = self.folder / "pids"
            pids.unlink(missing_ok=True)
            started = self.start("launch", "-n", 2, "--", "sh", "-c",
                                 "(sh deaf & setsid sh deaf & sh deaf; true); true")
            self.wait_for_lines(pids, 6)
            survivors = {int(pid): self.start_of(int(pid)) for pid in pids.read_text().split()}
            self.assertNotIn(None, survivors.values())
            os.kill(started.pid, number)
            done = started.finish()
            self.assertNotEqual(done.code, 0, done)
            deadline = time.monotonic() + (30 if number == signal.SIGKILL else 0)
            while any(self.start_of(pid) == start for pid, start in survivors.items()):
                self.assertLess(time.monotonic(), deadline, f"{number!r}: a grandchild is left")
                time.sleep(0.02)

    @staticmethod
    def start_of(pid):
        """When a process that still runs was started, in ticks; its number may be used again."""
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]

    def test_a_parent_that_ignores_the_ends_of_children(self):
        for program, code in (("true", 0), ("false", 1)):
            done = subprocess.run(
                ["bash", "-c", f"trap '' CHLD; exec {COMMAND} launch -n 2 -- {program}"],
                env=clean_environment(), capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done)
        shape = "--m 20 --k 30 --n 10"
        done = subprocess.run(
            ["bash", "-c", f"trap '' CHLD; exec {COMMAND} run {OP} -n 2 {shape}"],
            env=clean_environment(), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("PASSED", done.stdout)

    def on_terminal(self, *arguments):
        terminal = Terminal([COMMAND, *arguments], self.folder, clean_environment())
        self.addCleanup(terminal.end)
        return terminal

    def test_control_c_reaches_the_ranks(self):
        terminal = self.on_terminal(
            "launch", "-n", 2, "--", "sh", "-c",
            "trap 'echo told; exit 4' INT; echo up; while :; do sleep 0.05; done")
        terminal.shows(2, "up")
        terminal.press("c")
        terminal.shows(2, "told")
        terminal.says("ended 4")

    def test_control_z_stops_the_ranks_and_they_go_on(self):
        terminal = self.on_terminal("launch", "-n", 2, "--", "sh", "-c",
                                    "echo up $$ >>ranks; exec sleep 600")
        self.wait_for_lines(self.folder / "ranks", 2)
        ranks = [int(line.split()[1]) for line in (self.folder / "ranks").read_text().splitlines()]

        def state(pid):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

        for _ in range(2):
            terminal.press("z")
            terminal.says("stopped")
            deadline = time.monotonic() + 60
            while [state(pid) for pid in ranks] != ["T", "T"]:
                self.assertLess(time.monotonic(), deadline, "the ranks were not stopped")
                time.sleep(0.02)
            terminal.resume()
            while "T" in [state(pid) for pid in ranks]:
                self.assertLess(time.monotonic(), deadline, "the ranks were not continued")
                time.sleep(0.02)
        terminal.press("c")
        terminal.says(f"ended {128 + signal.SIGINT}")

    def test_a_stopped_job_can_be_killed(self):
        terminal = self.on_terminal("launch", "-n", 1, "--", "sh", "-c",
                                    "echo $$ >rank; exec sleep 600")
        self.wait_for_lines(self.folder / "rank", 1)
        rank = int((self.folder / "rank").read_text())
        start = self.start_of(rank)
        terminal.press("z")
        terminal.says("stopped")
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.resume()  # the shell looks at its job again
        terminal.says(f"ended {-signal.SIGKILL}")
        deadline = time.monotonic() + 60
        while self.start_of(rank) == start:
            self.assertLess(time.monotonic(), deadline, "a stopped rank is left")
            time.sleep(0.02)

    def test_ranks_do_not_wait_for_a_terminal(self):
        terminal = self.on_terminal(
            "launch", "-n", 2, "--", "sh", "-c",
            "cat; cat </dev/tty || echo refused; stty -echo </dev/tty; echo came through")
        terminal.shows(2, "came through")
        self.assertEqual(terminal.text.count("refused"), 2, terminal.text)
        terminal.says("ended 0")

    def test_a_pipe_is_handed_on(self):
        done = subprocess.run([COMMAND, "launch", "-n", "1", "--", "cat"], input="some text",
                              env=clean_environment(), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "some text")

    def test_one_of_several_processes_of_another_launcher(self):
        run = ("run", OP, "--m", 20, "--k", 30, "--n", 10)
        mpirun = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
        for options in ((), ("--ranks-as", "thread")):
            self.refuse(*run, *options, env=mpirun,
                        names=["OMPI_COMM_WORLD_SIZE=2", "--transport mpi", "tandem launch"])
        self.refuse(*run, env={"TANDEM_SIZE": "2"}, names=["TANDEM_RANK is missing"])
        self.refuse(*run, env={"TANDEM_FD": "3"}, names=["TANDEM_RANK is missing"])
        # What is started under it on purpose works.
        self.tandem("launch", "-n", 2, "--", COMMAND, *run, env=mpirun)

    def test_programs_that_cannot_start(self):
        self.refuse("launch", "-n", 2, names=["no program", "--"])
        self.refuse("launch", "-n", 2, "true", names=["true", "--"])
        self.refuse("launch", "-n", 2, "--", "/no/such/program", names=["/no/such/program"])
        self.refuse("launch", "-n", 65, "--", "true", names=["65", "1..64"])
        self.refuse("launch", "--bind", "socket", "--", "true", names=["socket", "numa"])
        (self.folder / "text").write_text("no program")
        self.refuse("launch", "--", "./text", code=FAILURE, names=["./text"])

    def test_binding(self):
        allowed = os.sched_getaffinity(0)
        for bind in ("none", "core", "numa"):
            done = self.launch(2, "grep Cpus_allowed_list /proc/self/status", "--bind", bind)
            self.assertEqual(len(done.out.splitlines()), 2)
            for line in done.out.splitlines():
                for part in line.split(":")[1].strip().split(","):
                    first, _, last = part.partition("-")
                    self.assertLessEqual(set(range(int(first), int(last or first) + 1)), allowed)

    def test_the_command_as_a_rank(self):
        shape = ("--m", 20, "--k", 30, "--n", 10)
        done = self.tandem("launch", "-n", 3, "--", COMMAND, "run", OP, *shape, "--json")
        result = done.json()  # one object: only rank 0 prints
        self.assertEqual((result["ranks"], result["verified"]), (3, True))
        done = self.tandem("launch", "-n", 3, "--", COMMAND, "run", OP, *shape, "-n", 3)
        self.assertEqual(done.out.count("Verification PASSED"), 1)
        done = self.tandem("launch", "-n", 2, "--", COMMAND, "run", OP, *shape, "-n", 3,
                           code=BAD_USAGE)
        self.assertIn("3", done.err)
        self.assertIn("rank 1: ", done.err)
        self.tandem("launch", "-n", 2, "--", COMMAND, "run", OP, *shape, "--ranks-as", "thread",
                    code=BAD_USAGE)


if __name__ == "__main__":
    unittest.main()
