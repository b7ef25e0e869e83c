# SPDX-License-Identifier: Apache-2.0
#
# Ranks on several hosts (hosts.py): results to the bit, also over a bad network; bytes on the wire;
# what happens when a rank dies, or is slow. ctest runs each class by itself; exit code 77 means that
# this machine cannot make hosts, and says why.
#
#   cluster_test.py [CLASS[.test]...]     TANDEM_COMMAND and TANDEM_MPI_TEST name the programs
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import hosts as cluster
from hosts import Hosts

COMMAND = os.environ.get("TANDEM_COMMAND", "tandem")
MULTI_TEST = os.environ.get("TANDEM_MPI_TEST", "mpi_multi_test")
LIMIT = 500  # seconds: generous, the machine may be busy
TO_THE_END = 1000000  # iterations: more than any test waits for


class Job:
    """An MPI job on the hosts."""

    def __init__(self, hosts, per_host, *command, environment=()):
        self.hosts = hosts
        self.began = time.monotonic()
        self.process = hosts.popen(hosts.mpirun(per_host, *command, environment=environment),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ranks(self, count):
        """Pids in rank order, once all run."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline and self.process.poll() is None:
            found = {}
            for _, pid, words in self.hosts.processes():
                if words and words[0] == COMMAND:
                    found[self.rank_of(pid)] = pid
            if None not in found and len(found) == count:
                return [found[rank] for rank in range(count)]
            time.sleep(0.02)
        raise AssertionError(f"{count} ranks never ran: {self.finish()}")

    @staticmethod
    def rank_of(pid):
        try:
            for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                    return int(entry.partition(b"=")[2])
        except OSError:
            pass
        return None

    def finish(self):
        try:
            self.out, self.err = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.code, self.took = self.process.returncode, time.monotonic() - self.began
        return self

    def __repr__(self):
        return f"code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class ClusterTest(unittest.TestCase):
    def hosts(self, *arguments, **options):
        made = Hosts(*arguments, **options)
        made.__enter__()
        self.addCleanup(made.end)
        return made

    def succeed(self, hosts, per_host, *command, environment=()):
        job = Job(hosts, per_host, *command, environment=environment).finish()
        self.assertEqual(job.code, 0, job)
        self.assert_nothing_left(hosts)
        return job

    def assert_nothing_left(self, hosts, within=5.0):
        deadline = time.monotonic() + within
        while hosts.processes() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(hosts.processes(), [])


class Bits(ClusterTest):
    """The multi-rank tests themselves, on hosts."""

    def multi(self, hosts, per_host, filter_="*", environment=()):
        self.succeed(hosts, per_host, MULTI_TEST, f"--gtest_filter={filter_}-*KilledProcess*",
                     environment=environment)

    def test_two_hosts(self):
        hosts = self.hosts(2)
        self.multi(hosts, 1)
        # All ranks on two hosts, and messages far beyond their limit.
        self.multi(hosts, 2, environment=["TANDEM_TEST_PIECE_BYTES=5000"])

    def test_four_hosts_and_eight_ranks(self):
        self.multi(self.hosts(4), 2, "*Ranks*:*Stages*:*Bounded*:*Dequant*")

    def test_three_hosts(self):
        self.multi(self.hosts(3), 1)


class BadNetwork(ClusterTest):
    def test_bits_with_jitter_and_reordering(self):
        reason = cluster.missing_wire()
        if reason:
            self.skipTest(reason)
        # 0.2 ms, up to 1 ms more, and one frame in twenty is overtaken by others.
        hosts = self.hosts(2, wire=(0.2, 1.0, 0.05))
        self.succeed(hosts, 2, MULTI_TEST,
                     "--gtest_filter=*Ranks*:*Bounded*:*AlongK*:*Mismatch*:*Disagree*")


class Bytes(ClusterTest):
    M, K, CALLS = 512, 512, 1000

    def bytes_per_call(self, hosts, transfer):
        """Sent by all hosts. What a job costs beside its calls cancels out, but for 4 MB with which the
        network may be measured or not."""
        sent = []
        for calls in (1, 1 + self.CALLS):
            before = sum(hosts.sent_bytes())
            self.succeed(hosts, 2, COMMAND, "run", "allgather-gemm", "--transport", "mpi", "--m",
                         self.M, "--k", self.K, "--n", 16, "--iters", calls, "--transfer", transfer)
            sent.append(sum(hosts.sent_bytes()) - before)
        return (sent[1] - sent[0]) / self.CALLS

    def test_a_chunk_crosses_once_per_machine(self):
        hosts = self.hosts(2)
        once = self.bytes_per_call(hosts, "pull")
        flat = self.bytes_per_call(hosts, "push")
        shards = self.M * self.K * 2
        print(f"4 ranks on 2 hosts send {once / shards:.3f} bytes per byte of A; a flat allgather "
              f"{flat / shards:.3f}")
        # TCP, IP and Ethernet take some percent, headers of calls a few KiB.
        self.assertGreater(once, shards)
        self.assertLess(once, 1.1 * shards)
        self.assertGreater(flat, 2 * shards)
        self.assertLess(once, 0.52 * flat)


class Failure(ClusterTest):
    def start(self, hosts, per_host, timeout_ms=30000):
        return Job(hosts, per_host, COMMAND, "run", "allgather-gemm", "--transport", "mpi", "--m",
                   600, "--k", 512, "--n", 128, "--iters", TO_THE_END, "--timeout", timeout_ms)

    def signal(self, job, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            self.fail(f"the job has ended: {job.finish()}")

    def death(self, per_host, victim):
        hosts = self.hosts(2)
        job = self.start(hosts, per_host)
        ranks = job.ranks(2 * per_host)
        time.sleep(1.0)  # in the middle of some call
        os.kill(ranks[victim], signal.SIGKILL)
        killed = time.monotonic()
        job.finish()
        self.assertLess(time.monotonic() - killed, 10.0, job)
        self.assertNotEqual(job.code, 0, job)
        self.assertIn(f"rank {victim}", job.err, job)
        self.assert_nothing_left(hosts)
        for host in hosts.hosts:
            self.assertEqual(host.run("ls", "-A", "/dev/shm"), "")

    def test_a_rank_alone_on_its_host_dies(self):
        self.death(1, 1)

    def test_a_rank_beside_others_dies(self):
        self.death(2, 2)

    def test_a_slow_rank_is_waited_for_until_the_deadline(self):
        hosts = self.hosts(2)
        job = self.start(hosts, 2, timeout_ms=4000)
        victim = job.ranks(4)[3]
        time.sleep(2.0)  # until all have joined
        os.kill(victim, signal.SIGSTOP)
        time.sleep(2.0)
        self.signal(job, victim, signal.SIGCONT)  # only slow: the job goes on
        time.sleep(0.5)
        self.signal(job, victim, signal.SIGSTOP)
        stopped = time.monotonic()
        job.finish()
        took = time.monotonic() - stopped
        self.assertGreater(took, 3.5, job)
        self.assertLess(took, 14.0, job)
        self.assertIn("rank 3", job.err, job)
        self.assertNotEqual(job.code, 0)
        self.assert_nothing_left(hosts)


if __name__ == "__main__":
    why = cluster.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
