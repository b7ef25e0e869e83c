#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What bench, run and info print: keys and types of the JSON, relations between its figures, the
# words of the text, and the progress bar. Run by ctest as cli.report.
import json
import os
import pty
import resource
import select
import subprocess
import time
import unittest

from command import COMMAND, CommandTest, clean_environment

OP = "allgather-gemm"
SHAPE = ("--rows", "100,0,33", "--k", 77, "--n", 31)

KEYS = {
    "op": str, "ranks": int, "m": int, "k": int, "n": int, "rows": list, "a_type": str,
    "c_type": str, "b_layout": str, "transport": str, "transfer": str, "kernel": str,
    "compute_threads": int, "comm_threads": int, "chunks_per_source": int, "tile_m": int,
    "tile_k": int, "speedup": float, "overlap_efficiency": float, "pipelined_over_max": float,
    "exposed_comm_ms": float, "gflops_per_rank": float, "verified": bool, "verified_rows": int,
    "iterations": int, "warmup": int, "peak_rss_mib": float, "version": str,
}
TIMINGS = ["compute_only_ms", "comm_only_ms", "sequential_ms", "pipelined_ms"]


class Report(CommandTest):
    def bench(self, *options):
        return self.tandem("bench", OP, *SHAPE, "--iters", 3, "--warmup", 1, *options)

    def check_bench(self, r):
        for key, kind in KEYS.items():
            self.assertIsInstance(r[key], kind, key)
        for key in TIMINGS:
            t = r[key]
            self.assertTrue(0 < t["min"] <= t["median"] <= t["max"], (key, t))
        self.assertEqual((r["op"], r["ranks"], r["m"], r["rows"]), (OP, 3, 133, [100, 0, 33]))
        compute, comm, sequential, pipelined = (r[key]["median"] for key in TIMINGS)
        self.assertAlmostEqual(r["speedup"], sequential / pipelined, places=6)
        self.assertAlmostEqual(r["pipelined_over_max"], pipelined / max(compute, comm), places=6)
        self.assertAlmostEqual(r["exposed_comm_ms"], pipelined - compute, places=6)
        self.assertAlmostEqual(r["overlap_efficiency"],
                               (comm + compute - pipelined) / min(comm, compute), places=6)
        self.assertAlmostEqual(r["gflops_per_rank"] * pipelined * 1e6, 2 * 133 * 77 * 31, delta=1)
        self.assertIs(r["verified"], True)
        self.assertEqual(r["verified_rows"], 133)

    def test_bench_json(self):
        for ranks_as in ("process", "thread"):
            done = self.bench("--json", "--ranks-as", ranks_as)
            self.assertEqual(done.err, "")
            r = done.json()
            self.check_bench(r)
            self.assertEqual((r["ranks_as"], r["transport"], r["link"]), (ranks_as, "shm", None))
            self.assertGreaterEqual(r["compute_threads"], 1)

    def test_bench_json_names_what_was_asked_for(self):
        r = self.bench("--json", "--transport", "sim", "--link", "2Gbit/s,30us", "--transfer",
                       "push", "--a-type", "bf16", "--c-type", "f16", "--b-layout", "kn",
                       "--tile-m", 10, "--tile-k", 20, "--compute-threads", 2, "--comm-threads", 3,
                       "--kernel", "scalar", "--seed", 11).json()
        self.check_bench(r)
        for key, value in {"transport": "sim", "link": "2Gbit/s,30us", "transfer": "push",
                           "a_type": "bf16", "c_type": "f16", "b_layout": "kn", "tile_m": 10,
                           "tile_k": 20, "compute_threads": 2, "comm_threads": 3,
                           "kernel": "scalar", "seed": 11}.items():
            self.assertEqual(r[key], value, key)

    def test_bench_text_has_the_words_of_the_report(self):
        done = self.bench()
        for words in ("AllGather GEMM", "Compute-only:", "Comm-only:", "Sequential:", "Pipelined:",
                      "Speedup:", "Overlap eff:", "Throughput:", "Verification:   PASSED"):
            self.assertIn(words, done.out)
        self.assertEqual(done.err, "")

    def test_m_is_split_as_even_as_possible(self):
        r = self.tandem("run", OP, "-n", 3, "--m", 11, "--k", 5, "--n", 3, "--json").json()
        self.assertEqual(r["rows"], [4, 4, 3])
        self.assertTrue(r["verified"])
        r = self.tandem("run", OP, "-n", 3, "--m", 2, "--k", 5, "--n", 3, "--json").json()
        self.assertEqual(r["rows"], [1, 1, 0])

    def test_info(self):
        text = self.tandem("info").out
        info = self.tandem("info", "--json").json()
        self.assertEqual(set(info["affinity"]), os.sched_getaffinity(0))
        for kernel in info["kernels"]:
            self.assertIn(kernel["target"], text)
            self.assertTrue(kernel["reason"])
        for element in ("f16", "bf16", "f32"):
            chosen = [k for k in info["kernels"] if k["type"] == element and k["chosen"]]
            self.assertEqual(len(chosen), 1, element)
            self.assertTrue(chosen[0]["runnable"])
        for words in ("Instruction sets", "NUMA nodes", "Caches", "Memory"):
            self.assertIn(words, text)
        self.assertTrue(1 <= info["cores_allowed"] <= len(info["affinity"]))
        threads = info["cores_allowed"]
        if info["cpu_quota"] > 0:
            threads = max(1, min(threads, int(info["cpu_quota"])))
        self.assertEqual(info["default_compute_threads"], threads)
        self.assertIn(f"default compute threads: {threads} = ", text)

    def test_a_kernel_that_fails_its_self_check_is_not_used_and_that_is_said(self):
        kernels = self.tandem("info", "--self-check", "--json").json()["kernels"]
        for kernel in kernels:
            self.assertEqual(kernel["self_check"], "passed" if kernel["runnable"] else "", kernel)
        best = next(k["target"] for k in kernels if k["type"] == "bf16" and k["chosen"])
        if best == "scalar":
            self.skipTest("only one kernel runs here")
        env = {"TANDEM_TEST_DISTRUST": best}
        done = self.tandem("info", "--self-check", code=1, env=env)
        self.assertIn("TANDEM_TEST_DISTRUST says so; it is not used", done.out)
        shape = ("allgather-gemm", "--m", "9", "--k", "9", "--n", "9", "--a-type", "bf16")
        done = self.tandem("bench", *shape, "--iters", "1", env=env)
        self.assertIn(f"kernel '{best}' of bf16 is wrong on this CPU", done.err)
        self.assertNotIn(f"{best},", done.out)
        done = self.tandem("bench", *shape, "--kernel", best, code=2, env=env)
        self.assertIn("TANDEM_TEST_DISTRUST says so; use auto", done.err)

    def test_info_tells_limits_of_the_process_from_those_of_its_container(self):
        def info(limits):
            def lower():
                for limit, size in limits.items():
                    resource.setrlimit(limit, (size, size))
            done = subprocess.run([COMMAND, "info", "--json"], env=clean_environment(), check=True,
                                  capture_output=True, preexec_fn=lower)
            return json.loads(done.stdout)
        here = info({})
        lowered = info({resource.RLIMIT_AS: 3 << 40})
        self.assertEqual(lowered["process_memory_limit"], 3 << 40)
        self.assertEqual(lowered["process_memory_limit_name"], "RLIMIT_AS")
        lowered = info({resource.RLIMIT_AS: 3 << 40, resource.RLIMIT_DATA: 2 << 40})
        self.assertEqual(lowered["process_memory_limit"], 2 << 40)
        self.assertEqual(lowered["process_memory_limit_name"], "RLIMIT_DATA")
        for key in ("container_memory_limit", "container"):
            self.assertEqual(lowered[key], here[key])

    def on_terminal(self, *arguments):
        """Standard error of a command that has a terminal there."""
        leader, follower = pty.openpty()
        process = subprocess.Popen([COMMAND, *map(str, arguments)], cwd=self.folder,
                                   env=clean_environment(), stdout=subprocess.DEVNULL,
                                   stderr=follower, stdin=subprocess.DEVNULL)
        os.close(follower)
        text = b""
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            if select.select([leader], [], [], 0.1)[0]:
                try:
                    part = os.read(leader, 4096)
                except OSError:  # the last writer has closed it
                    break
                if not part:
                    break
                text += part
        os.close(leader)
        self.assertEqual(process.wait(timeout=30), 0)
        return text.decode()

    def test_progress_bar_only_for_long_work_on_a_terminal(self):
        # About 3 s: each of 3 modes in 12 rounds waits for a link at least 80 ms.
        slow = ("bench", OP, "--m", 80, "--k", 100, "--n", 3, "--transport", "sim", "--link",
                "1GB/s,80ms", "--iters", 11, "--warmup", 1)
        self.assertRegex(self.on_terminal(*slow), r"bench \[#*-*\] +\d+%")
        self.assertEqual(self.on_terminal(*slow, "--quiet"), "")
        self.assertEqual(self.on_terminal("bench", OP, *SHAPE, "--iters", 1, "--warmup", 0), "")
        self.assertEqual(self.tandem(*slow).err, "")


if __name__ == "__main__":
    unittest.main()
