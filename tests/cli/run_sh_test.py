#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# run.sh with the options of the NPU example, on this build: its report parses, its files are
# there, and its errors are clear. Run by ctest as cli.run_sh.
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from command import CommandTest, clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["TANDEM_TEST_BUILD"]
CACHE = pathlib.Path(BUILD) / "CMakeCache.txt"


class RunSh(CommandTest):
    def run_sh(self, *options, code=0):
        # From another folder on purpose.
        done = subprocess.run(
            [ROOT / "run.sh", *map(str, options)], cwd=self.folder, text=True,
            env=clean_environment(TANDEM_BUILD_DIR=BUILD, TANDEM_OUT_DIR=str(self.folder / "out")),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=250)
        self.assertEqual(done.returncode, code, f"{options}: {done}")
        return done

    def figure(self, report, label, unit):
        match = re.search(rf"^  {label}: +(-?[\d.]+) {unit}", report, re.M)
        self.assertIsNotNone(match, f"no '{label}' in {report}")
        return float(match[1])

    def check_report(self, report, transport):
        self.assertRegex(report, rf"(?m)^\[SUCCESS\] AllGather GEMM \({transport}\)")
        compute, sequential, pipelined = (
            self.figure(report, label, "ms") for label in ("Compute-only", "Sequential", "Pipelined"))
        self.assertGreater(compute, 0)
        # Printed with three digits after the point.
        self.assertAlmostEqual(self.figure(report, "Speedup", "x"), sequential / pipelined,
                               delta=0.002 + 0.002 / pipelined * sequential / pipelined)
        self.figure(report, "Overlap eff", "%")
        self.assertGreater(self.figure(report, "Throughput", "GFLOP/s"), 0)
        self.assertIn("[INFO] Running warmup", report)
        self.assertIn("[INFO] Functional run completed. Verification PASSED", report)
        self.assertRegex(report, r"(?m)^  Verification: +PASSED")

    def test_report_and_files(self):
        options = ("-r", "cpu", "-v", "auto", "-n", 3, "--gm", 100, "--gk", 77, "--gn", 31,
                   "--base-m", 16, "--base-n", 32, "--compute-blocks", 2, "--comm-blocks", 2)
        done = self.run_sh(*options)
        self.check_report(done.stdout, "shm")
        self.assertRegex(done.stdout, r"tiles of 16 x 32\b")
        self.assertIn("2 compute threads and 2 lanes", done.stdout)
        out = self.folder / "out"
        golden = (out / "golden.bin").read_bytes()
        self.assertEqual(len(golden), 100 * 31 * 4)
        for rank in range(3):
            self.assertTrue((out / f"pe_{rank}_a.bin").exists())
            self.assertTrue((out / f"pe_{rank}_b.bin").exists())
            self.assertEqual((out / f"output_rank{rank}.bin").read_bytes(), golden)
        # Again: the data is kept. Then fewer ranks: no output of the former run stays.
        self.assertIn("Kept", self.run_sh(*options).stdout)
        done = self.run_sh("--n-ranks=2", "--gm", 100, "--gk", 77, "--gn", 31)
        self.assertIn("Wrote", done.stdout)
        self.assertFalse((out / "output_rank2.bin").exists())

    def test_simulated_link(self):
        done = self.run_sh("--run-mode", "sim", "--gm", 64, "--gk", 100, "--gn", 40,
                           "--soc-version", "scalar")
        self.check_report(done.stdout, "sim")
        self.assertIn("scalar", done.stdout)

    def test_ranks_of_mpirun(self):
        if shutil.which("mpirun") is None or "MPI_mpi_LIBRARY" not in CACHE.read_text():
            self.skipTest("this build has no MPI")
        done = self.run_sh("-r", "mpi", "-n", 3, "--gm", 64, "--gk", 100, "--gn", 40)
        self.check_report(done.stdout, "mpi")
        golden = (self.folder / "out" / "golden.bin").read_bytes()
        for rank in range(3):
            self.assertEqual((self.folder / "out" / f"output_rank{rank}.bin").read_bytes(), golden)

    def test_errors(self):
        for options, words in [
            (("-r", "npu"), ["npu", "no NPU backend"]),
            (("-r", "gpu"), ["'gpu'", "sim"]),
            (("-v", "Ascend910B1"), ["Ascend910B1", "scalar"]),
            (("-n", 0), ["'0'", "1..64"]),
            (("--n-ranks", "x"), ["'x'", "1..64"]),
            (("--gk", 0), ["--gk", "'0'", "1.."]),
            (("--gn", "-4"), ["--gn", "'-4'"]),
            (("--comm-blocks", 17), ["17", "1..16"]),
            (("--gm",), ["--gm", "value"]),
            (("--fly", 1), ["--fly", "--help"]),
        ]:
            done = self.run_sh(*options, code=2)
            for word in words:
                self.assertIn(word, done.stderr, options)
            self.assertNotIn("SUCCESS", done.stdout)
        self.assertIn("Usage", self.run_sh("--help").stdout)

    def test_unwritable_output_folder(self):
        (self.folder / "out").write_text("a file")
        done = self.run_sh(code=3)
        self.assertIn("out", done.stderr)


if __name__ == "__main__":
    unittest.main()
