#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Kills one rank of a job at a random moment of its life, with SIGKILL, and looks at what becomes of
# the others: each must be told kPeerLost with the number of the rank that was killed, never by a
# deadline, and nothing of the job may be left. Each job has its own way of using an operator, its
# own victim, phase and moment in it, and perhaps delays at protocol steps: all from the seed.
# docs/reliability.md has the counts. What a rank does: fault_rank.cc. Start reading at Job.run().
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import remains

# How jobs are started. `parent` is a program that starts ranks and tells nobody when one has ended.
WAYS = ["pull", "push", "staged", "direct", "sim", "sim_push", "quantised", "row_scaled"]
NETWORK_WAYS = [way for way in WAYS if not way.startswith("sim")]
PHASES = ["starting", "joining", "creating", "calling", "destroying", "leaving"]
# Not MPI_Init(): nothing of Tandem runs yet, and when a rank dies in it the others, or mpiexec itself
# while it ends the job, may wait for ever (Open MPI 4.1.4, one job in 200).
MPI_PHASES = PHASES[1:]
TEARDOWN = PHASES[4:]
DEADLINE = 60.0  # seconds, of every wait of a job
EARLY_DEADLINE = 3.0  # where nothing but the deadline need end it
MPIEXEC = os.environ.get("TANDEM_MPIEXEC", "mpiexec")
CRASH_WORDS = ["SIGSEGV", "SIGABRT", "SIGBUS", "terminate called", "Sanitizer"]
LIMIT = 100.0  # seconds until a job hangs: beyond its deadline, so that this is not taken for it


class Setting:
    """Where ranks come from, and how many."""

    def __init__(self, text, build):
        self.name = text
        kind, _, count = text.partition(":")
        self.kind, self.ranks = kind, int(count or 4)
        self.mpi = kind.startswith("mpi")
        self.mpi_ends = kind == "mpi"  # the others with the one that died
        # Ranks that end without MPI_Finalize() leave files of the MPI's, if it does not end the job, or
        # dies itself while it does (Open MPI 4.1.4: SIGSEGV in PMIx_server_finalize, now and then).
        self.not_ours = ("ompi.", "vader_segment.") if self.mpi else ()
        self.build = build
        # What starting (the time before main) and a phase take, renewed by what jobs report.
        self.seconds = {"starting": 0.01, "calling": 0.05}

    def command(self, arguments):
        tests = self.build / "tests/fault"
        if self.kind == "launch":
            return [self.build / "tools/tandem", "launch", "-n", self.ranks, "--",
                    tests / "fault_rank", *arguments]
        if self.kind == "parent":
            return [tests / "fault_rank", "--parent", self.ranks, *arguments]
        # Open MPI ends a job when one of its ranks dies, unless it is told not to.
        alive = [] if self.mpi_ends else ["--enable-recovery"]
        return [MPIEXEC, "--oversubscribe", "--bind-to", "none", *alive, "-n", self.ranks,
                tests / "fault_rank_mpi", *arguments]


class Job:
    """One job and what became of it. `wrong` lists what should not have been."""

    def __init__(self, setting, seed, number):
        self.setting, self.number = setting, number
        self.random = random.Random(f"{seed}/{setting.name}/{number}")
        draw = self.random
        self.way = draw.choice(NETWORK_WAYS if setting.mpi else WAYS)
        self.scale = draw.choice([1, 8])
        self.victim = draw.randrange(setting.ranks)
        self.phase = draw.choice(MPI_PHASES if setting.mpi else PHASES)
        self.moment = draw.random() * 1.2  # of what the phase takes
        # In a phase of the end: does the victim end alone, or all together?
        # (Not all together where that means MPI_Finalize(), which waits for the dead.)
        self.alone = draw.random() < 0.5 or self.phase not in TEARDOWN or \
            (setting.mpi and not setting.mpi_ends)
        self.delays = f"{draw.randrange(10**6)}:{draw.choice([100, 1000, 3000])}" \
            if draw.random() < 0.5 else ""
        self.wrong, self.lines, self.killed_at, self.latencies = [], [], None, []
        self.by_deadline, self.mpiexec_hung, self.pids = False, False, set()

    def __str__(self):
        return (f"{self.setting.name} job {self.number}: {self.way} x{self.scale}, rank "
                f"{self.victim} in {self.phase} + {self.moment:.2f}"
                f"{', alone' if self.alone else ''}{', delays ' + self.delays if self.delays else ''}")

    def environment(self, folder):
        env = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_")}
        deadline = EARLY_DEADLINE if self.unannounced() else DEADLINE
        env["TANDEM_TIMEOUT_MS"] = str(int(deadline * 1000))
        env["TMPDIR"] = str(folder)
        env[remains.MARK] = folder.name
        if self.delays:
            env["TANDEM_TEST_DELAYS"] = self.delays
        if self.setting.mpi:
            env["TANDEM_TEST_MACHINES"] = "2"
            env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
            env["OMPI_MCA_mpi_yield_when_idle"] = "1"
            env["OMPI_MCA_btl_vader_backing_directory"] = str(folder)
        return env

    def run(self):
        # A victim that is to die early must not end by itself before.
        calls = 20 if self.phase in TEARDOWN else 10**9
        after = self.moment * self.setting.seconds.get(self.phase, 0.002)
        arguments = [self.way, self.scale, calls, self.victim if self.alone else -1, self.victim,
                     self.phase, int(1e9 * after)]
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem-kill-"))
        try:
            command = list(map(str, self.setting.command(arguments)))
            process = subprocess.Popen(command, env=self.environment(folder), cwd=folder,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            if self.phase == "starting":
                self.kill_while_starting(process, after)
            try:
                out, _ = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                left = remains.processes(folder.name)
                # An mpiexec that ends a job may hang with no rank alive (Open MPI 4.1.4).
                self.mpiexec_hung = self.setting.mpi_ends and left == [process.pid]
                if not self.mpiexec_hung:
                    self.wrong.append(f"it had not ended after {LIMIT} s: {len(left)} processes are there")
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                out, _ = process.communicate()
            for line in out.decode(errors="replace").splitlines():
                self.hear(line)
            self.judge()
            self.wrong += remains.left(folder, self.pids | {process.pid},
                                       self.setting.not_ours)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return self

    def hear(self, line):
        """What a rank says is (rank, phase, time, rest); other lines stay text."""
        words = line.rstrip().split(" ", 6)
        if len(words) < 4 or not (words[0].isdigit() and words[1].isdigit() and words[3].isdigit()):
            self.lines.append(line)
            return
        self.pids.add(int(words[1]))
        self.lines.append((int(words[0]), words[2], int(words[3]) / 1e9, words[4:]))

    def kill_while_starting(self, process, after):
        """Between fork and main nobody arms a death: here the environment tells who it is."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for pid in remains.children(process.pid):
                try:
                    env = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"TANDEM_RANK=%d" % self.victim not in env:
                    continue
                time.sleep(after)
                self.killed_at = time.monotonic()
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it was faster
                return

    def said(self, rank, phase):
        for line in self.lines:
            if isinstance(line, tuple) and line[0] == rank and line[1] == phase:
                return line
        return None

    def judge(self):
        self.learn()
        death = self.said(self.victim, "death")
        if death:
            self.killed_at = death[2]
        if self.killed_at is None and not self.setting.mpi_ends:
            self.wrong.append(f"rank {self.victim} never came to its phase")
        for rank in range(self.setting.ranks):
            line = self.said(rank, "end")
            if rank == self.victim or self.wrong:
                continue
            if line is None:
                if not self.setting.mpi_ends:
                    self.wrong.append(f"rank {rank} never said how it ended")
                continue
            code, lost, message = (line[3] + ["", "", ""])[:3]
            left = self.said(rank, "left")
            if left and left[2] > line[2] + DEADLINE / 2:
                self.wrong.append(f"rank {rank} took {left[2] - line[2]:.0f} s to leave")
            if code == "peer_lost" and int(lost) == self.victim:
                self.latencies.append(max(0.0, line[2] - self.killed_at))
            elif code == "timeout" and int(lost) in (self.victim, -1) and self.unannounced():
                self.by_deadline = True
            elif code != "ok" or self.alone:
                self.wrong.append(f"rank {rank} was told {code} ({lost}): {message}")
        for line in self.lines:
            if isinstance(line, str) and any(word in line for word in CRASH_WORDS):
                self.wrong.append(line)

    def unannounced(self):
        """Whether nothing may have said that there ever was such a rank: it had yet to join."""
        untold = self.setting.kind == "parent" or self.setting.mpi
        return untold and self.phase in ("starting", "joining")

    def learn(self):
        """What the phases of ranks that lived took."""
        mine = [line for line in self.lines if isinstance(line, tuple) and line[1] != "death"]
        for rank, phase, at, _ in mine:
            if phase in ("calling", "end") or self.delays:
                continue
            later = [a for r, p, a, _ in mine if r == rank and a > at]
            if rank != self.victim and later:
                old = self.setting.seconds.get(phase)
                new = min(min(later) - at, 1.0)
                self.setting.seconds[phase] = new if old is None else 0.7 * old + 0.3 * new

def main():
    parser = argparse.ArgumentParser(
        description="Kills ranks at random moments and looks at what becomes of the others.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="A setting is what starts the ranks and how many: launch:N (tandem launch), parent:N\n"
               "(a parent that tells nobody), mpi (2 × 2 ranks; mpirun ends the others), mpi-alive\n"
               "(mpirun is told not to). The whole: --count 200 with the default settings.")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/dev"),
                        help="build folder (build/dev)")
    parser.add_argument("--count", type=int, default=200, help="jobs of each setting (200)")
    parser.add_argument("--first", type=int, default=0, help="number of the first job (0)")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TANDEM_TEST_SEED", 1)),
                        help="of everything that is drawn (TANDEM_TEST_SEED, or 1)")
    parser.add_argument("--settings", default="launch:2,launch:3,launch:8,parent:2,parent:3,parent:8,"
                        "mpi,mpi-alive", help="comma-separated")
    parser.add_argument("--verbose", action="store_true", help="a line for each job")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    failed = 0
    if "mpi" in options.settings and "Open" not in subprocess.run(
            [MPIEXEC, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout:
        print(f"{MPIEXEC} is not Open MPI's: the settings with MPI need its options")
        return 77
    for text in options.settings.split(","):
        failed += sweep(Setting(text, options.build.resolve()), options)
    return 1 if failed else 0


def sweep(setting, options):
    latencies, wrong, killed, by_deadline, hung = [], 0, 0, 0, 0
    for number in range(options.first, options.first + options.count):
        job = Job(setting, options.seed, number).run()
        if options.verbose:
            print(job, " ".join(f"{1000 * l:.1f}" for l in job.latencies), flush=True)
        latencies += job.latencies
        killed += job.said(job.victim, "left") is None
        by_deadline += job.by_deadline
        hung += job.mpiexec_hung
        if job.wrong:
            wrong += 1
            print(f"FAILED {job}")
            for line in job.wrong:
                print(f"  {line}")
            for line in job.lines[-40:]:
                print(f"    {line}")
            print(f"  repeat: {sys.argv[0]} --build {options.build} --seed {options.seed} "
                  f"--settings {setting.name} --first {number} --count 1", flush=True)
    latencies.sort()
    at = (lambda q: 1000 * latencies[min(len(latencies) - 1, int(q * len(latencies)))])
    told = f"{len(latencies)} survivors told after median {at(0.5):.1f}, 99% {at(0.99):.1f}, " \
           f"longest {at(1):.1f} ms" if latencies else "no survivor was told"
    print(f"{setting.name}: {options.count} jobs, {killed} ranks killed before they had left, "
          f"{told}{f', {by_deadline} jobs ended by their deadline' if by_deadline else ''}"
          f"{f', mpiexec hung {hung} times when no rank was left' if hung else ''}; "
          f"{wrong} jobs wrong", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
