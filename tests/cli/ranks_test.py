#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# run and bench with ranks that are killed, stopped, interrupted, many, or beside another job: a
# clear end, the right exit code, nothing left. Run by ctest as cli.ranks.
import os
import signal
import unittest

from command import FAILURE, CommandTest

OP = "allgather-gemm"
# Takes minutes: rank 0's 40 kB travel at 100 bytes a second.
SLOW = ("--m", 200, "--k", 200, "--n", 10, "--transport", "sim", "--link", "100B/s,1s")


class Ranks(CommandTest):
    def start_slow(self, command, *options, ranks=3):
        started = self.start(command, OP, "-n", ranks, *SLOW, *options)
        return started, started.ranks(ranks)

    def test_a_killed_rank_is_reported_and_all_end(self):
        for command in ("run", "bench"):
            started, ranks = self.start_slow(command)
            os.kill(ranks[1], signal.SIGKILL)
            done = started.finish()
            self.assertEqual(done.code, FAILURE, done)
            self.assertIn("signal 9", done.err)
            self.assertEqual(len(done.err.splitlines()), 1, "the others' words are consequences")
            self.assertEqual(done.out, "")
            self.assert_nothing_left(done)

    def test_a_stopped_rank_is_a_timeout(self):
        started, ranks = self.start_slow("run", "--timeout", 1000)
        os.kill(ranks[2], signal.SIGSTOP)
        done = started.finish()
        self.assertEqual(done.code, FAILURE, done)
        self.assertIn("rank 2", done.err)
        self.assert_nothing_left(done)

    def test_a_link_too_slow_for_the_deadline_is_a_timeout(self):
        for ranks_as in ("process", "thread"):
            done = self.tandem("run", OP, *SLOW, "--timeout", 500, "--ranks-as", ranks_as, "--json",
                               code=FAILURE)
            error = done.json()["error"]
            self.assertEqual(error["code"], "timeout", done)
            self.assertRegex(error["message"], r"rank \d")

    def test_control_c_and_termination_leave_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for ranks_as in ("process", "thread"):
                if ranks_as == "process":
                    started, _ = self.start_slow("bench")
                else:
                    started = self.start("bench", OP, *SLOW, "--ranks-as", "thread")
                    while len(os.listdir(f"/proc/{started.pid}/task")) < 3:
                        self.assertIsNone(started.process.poll())
                started.interrupt(number)
                done = started.finish()
                expected = 128 + number if ranks_as == "process" else -number
                self.assertEqual(done.code, expected, done)
                self.assertEqual(done.out, "")
                self.assert_nothing_left(done)

    def test_a_signal_to_the_command_alone_ends_its_ranks(self):
        started, _ = self.start_slow("run")
        os.kill(started.pid, signal.SIGTERM)
        done = started.finish()
        self.assertEqual(done.code, 128 + signal.SIGTERM, done)
        self.assert_nothing_left(done)

    def test_two_jobs_at_once(self):
        self.tandem("gen", OP, "-n", 3, "--m", 100, "--k", 77, "--n", 31, "--data-dir", "data")
        jobs = [self.start("run", OP, "--data-dir", "data", "--iters", 20, "--json"),
                self.start("run", OP, "--data-dir", "data", "--iters", 20, "--json"),
                self.start("bench", OP, "--m", 300, "--k", 100, "--n", 50, "--iters", 5, "--json")]
        for job in jobs:
            done = job.finish()
            self.assertEqual(done.code, 0, done)
            self.assertTrue(done.json()["verified"])
            self.assert_nothing_left(done)
        golden = (self.folder / "data/golden.bin").read_bytes()
        self.assertEqual((self.folder / "data/output_rank2.bin").read_bytes(), golden)

    def test_more_ranks_than_cores(self):
        ranks = 4 * len(os.sched_getaffinity(0)) + 1
        ranks = min(ranks, 33)
        for ranks_as in ("process", "thread"):
            result = self.tandem("run", OP, "-n", ranks, "--m", 500, "--k", 64, "--n", 48,
                                 "--iters", 3, "--ranks-as", ranks_as, "--json").json()
            self.assertEqual((result["ranks"], result["verified"]), (ranks, True))

    def test_one_rank(self):
        for ranks_as in ("process", "thread"):
            self.tandem("run", OP, "-n", 1, "--m", 9, "--k", 8, "--n", 7, "--ranks-as", ranks_as)


if __name__ == "__main__":
    unittest.main()
