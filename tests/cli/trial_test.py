#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# scripts/allgather_matmul_dequant.sh, and so `tandem trial`, on this build: the seed's shapes, the
# small one whole and the large ones with fewer rows but otherwise as in full; debug; and what is
# refused. Run by ctest as cli.trial.
import csv
import os
import pathlib
import re
import signal
import struct
import subprocess
import unittest

from command import FAILURE, CommandTest, clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/allgather_matmul_dequant.sh"
BUILD = os.environ["TANDEM_TEST_BUILD"]
DEVICES = ",".join(str(d) for d in range(min(2, len(os.sched_getaffinity(0)))))
RANKS = len(DEVICES.split(","))


class Trial(CommandTest):
    def script(self, *arguments, code=0, **env):
        done = subprocess.run(
            [SCRIPT, *map(str, arguments)], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
            env=clean_environment(TANDEM_BUILD_DIR=BUILD, **env), capture_output=True, timeout=280)
        self.assertEqual(done.returncode, code, f"{arguments}: {done}")
        return done

    def shapes(self, text):
        (self.folder / "shapes.csv").write_text(text)
        return "shapes.csv"

    def results(self):
        with open(self.folder / "output/results.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_the_shapes_of_the_example(self):
        operations = 2 * RANKS * 64 * 16384 * 7168
        done = self.script(DEVICES, "--", "--scale-ops", operations, "--time-budget", "1s")
        rows = self.results()
        self.assertEqual([(r["full_m_per_rank"], r["k"], r["n"]) for r in rows],
                         [("64", "1024", "512"), ("16384", "27392", "4096"),
                          ("131072", "8192", "3072"), ("64", "16384", "7168")])
        self.assertEqual([r["case"] for r in rows], ["overflow", "list", "list", "list"])
        self.assertEqual([r["whole"] for r in rows], ["true", "false", "false", "true"])
        self.assertEqual({r["result"] for r in rows}, {"PASS"})
        self.assertEqual({r["errors"] for r in rows}, {";".join("0" * RANKS)})
        self.assertEqual(len(re.findall(r"(?m)^  rank \d+: 0 errors, PASS$", done.stdout)),
                         4 * RANKS)
        self.assertRegex(done.stdout, r"\d+ elements are infinite")
        self.assertIn("product check", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^64 x 16384 x 7168 +[\d.]+ +[\d.]+ +[\d.]+ +-?[\d.]+ "
                                      r"+[\d.]+  PASS$")
        golden = (self.folder / "output/golden.bin").read_bytes()
        self.assertEqual(len(golden), RANKS * 64 * 7168 * 2)
        for rank in range(RANKS):
            for name in ("output", "d_gm"):
                self.assertEqual((self.folder / f"output/{name}_rank{rank}.bin").read_bytes(),
                                 golden)
            x1 = (self.folder / f"output/x1_gm_rank{rank}.bin").read_bytes()
            self.assertEqual(set(x1), set(range(256)), "random data covers all of s8")

    def test_an_interrupted_trial_and_a_folder_in_use(self):
        self.shapes("M,K,N\n400,4000,4000\n")
        options = ("trial", "allgather-gemm-dequant", "--devices", "0", "--shapes", "shapes.csv",
                   "--time-budget", "2h")
        started = self.start(*options)
        started.ranks(1)
        second = self.start(*options).finish()
        self.assertEqual(second.code, FAILURE, second)
        self.assertRegex(second.err, "output.*another trial.*--output")
        started.interrupt()
        done = started.finish()
        self.assertIn(done.code, (128 + signal.SIGINT, -signal.SIGINT), done)
        self.assert_nothing_left(done)

    def test_debug(self):
        done = self.script(DEVICES, self.shapes("N,K,M\n7,100,3\n"), debug="1", output="here")
        self.assertNotIn("overflow", done.stdout)
        output = (self.folder / "here/output_rank0.bin").read_bytes()
        self.assertEqual(set(struct.unpack(f"<{3 * RANKS * 7}e", output)), {101 * 0.5})
        self.script(DEVICES, "shapes.csv", debug="yes", code=2)

    def test_sums_on_request_and_one_device(self):
        self.script("0", self.shapes("M,K,N\n3,4,5\n"), "--", "--accumulators", "--quiet")
        self.assertEqual((self.folder / "output/c_gm_rank0.bin").stat().st_size, 3 * 5 * 4)
        self.assertFalse((self.folder / "output/x1_gm_rank1.bin").exists())

    def test_what_cannot_run_is_an_error_and_the_others_still_run(self):
        # No memory for the first; the second still runs.
        done = self.script(DEVICES, self.shapes(f"M,K,N\n{2**38},9,9\n3,4,5\n"), code=3)
        self.assertEqual([r["result"] for r in self.results()], ["PASS", "ERROR", "PASS"])
        self.assertIn(str(2**38), done.stderr)
        (self.folder / "plain").write_text("")
        self.script(DEVICES, "shapes.csv", output="plain/below", code=3)

    def test_bad_arguments(self):
        self.shapes("M,K,N\n1,2,3\n4,five,6\n")
        for arguments, words in [
            ((), ["DEVICES"]), (("0", "a", "b"), ["DEVICES"]), (("--fly",), ["--fly"]),
            (("0,0",), ["twice"]), (("0,,1",), ["0,,1"]), (("0,4000",), ["4000", "0.."]),
            (("x",), ["'x'"]), ((",".join(map(str, range(64))),), ["64 devices", "can be used"]),
            (("0", "absent.csv"), ["absent.csv"]),
            (("0", "shapes.csv"), ["shapes.csv:3:", "'five'"]),
            (("0", "--", "--scale-ops", "few"), ["'few'"]),
        ]:
            if len(os.sched_getaffinity(0)) >= 64 and "can be used" in words:
                continue
            done = self.script(*arguments, code=2)
            for word in words:
                self.assertIn(word, done.stderr, arguments)
        self.assertFalse((self.folder / "output").exists())
        self.assertIn("Usage", self.script("--help").stdout)


if __name__ == "__main__":
    unittest.main()
