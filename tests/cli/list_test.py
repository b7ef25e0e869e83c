#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# bench --shapes: which lists are read, what the table holds, and that a rerun goes on where the one
# before ended. Run by ctest as cli.list.
import csv
import os
import signal
import time
import unittest

from command import COMMAND, FAILURE, CommandTest

OPS = ("allgather-gemm", "allgather-gemm-dequant")
FAST = ("--iters", 1, "--warmup", 0)


class List(CommandTest):
    def write(self, text, name="shapes.csv"):
        (self.folder / name).write_bytes(text.encode())
        return name

    def rows(self, name="out.csv"):
        with open(self.folder / name, newline="") as file:
            return list(csv.DictReader(file))

    def bench(self, *options, op=OPS[1], **expect):
        return self.tandem("bench", op, "--shapes", "shapes.csv", "--out", "out", *FAST, *options,
                           **expect)

    def test_both_operators_and_any_order_of_columns(self):
        self.write('\ufeffnote,n , K,m\r\n\r\n"a, ""b""",3, 77,16\r\n , 5,8,0007\r\n   \r\n')
        for op in OPS:
            done = self.tandem("bench", op, "--shapes", "shapes.csv", "--out", op, *FAST)
            rows = self.rows(op + ".csv")
            self.assertEqual([(r["m"], r["k"], r["n"]) for r in rows],
                             [("16", "77", "3"), ("7", "8", "5")])
            for row in rows:
                self.assertEqual((row["op"], row["status"], row["verified"]), (op, "ok", "true"))
                self.assertEqual(row["verified_rows"], row["m"])
                self.assertGreater(float(row["pipelined_ms"]), 0)
                self.assertGreater(float(row["peak_rss_mib"]), 0)
            self.assertIn("2 right, 0 wrong", done.out)
            self.assertIn("pipelined/max", done.out)

    def test_figures_and_distribution_follow_from_the_lines(self):
        self.write("M,K,N\n" + "".join(f"{m},{m + 3},9\n" for m in (1, 5, 30, 70, 90)))
        result = self.bench("--json").json()
        self.assertEqual(result["shapes"],
                         self.tandem("bench", OPS[1], "--shapes", "shapes.csv", "--out", "out",
                                     *FAST, "--json").json()["shapes"])
        for row in result["shapes"]:
            longer = max(row["compute_only_ms"], row["comm_only_ms"])
            self.assertAlmostEqual(row["pipelined_over_max"], row["pipelined_ms"] / longer)
        ratios = sorted(row["speedup"] for row in result["shapes"])
        spread = result["distribution"]["speedup"]
        self.assertEqual((spread["min"], spread["median"], spread["max"]),
                         (ratios[0], ratios[2], ratios[4]))
        self.assertAlmostEqual(spread["p10"], ratios[0] + 0.4 * (ratios[1] - ratios[0]))
        self.assertEqual(spread["worst"][0]["value"], ratios[0])
        over = result["distribution"]["pipelined_over_max"]
        self.assertEqual(over["worst"][0]["value"], over["max"])
        self.assertEqual(self.rows()[0]["m"], "1")
        self.assertEqual((self.folder / "out.json").read_text(), self.bench("--json").out)

    def test_a_rerun_measures_only_what_is_missing(self):
        self.write("M,K,N\n8,9,10\n8,9,10\n11,12,13\n")
        self.bench()
        before = (self.folder / "out.csv").read_bytes()
        self.bench()
        self.assertEqual((self.folder / "out.csv").read_bytes(), before)
        self.write("M,K,N\n8,9,10\n14,15,16\n")
        # The last line was being written when the power failed.
        (self.folder / "out.csv").write_bytes(before + b"14,15,16,ok,,1,0.0")
        self.bench()
        after = (self.folder / "out.csv").read_bytes()
        self.assertTrue(after.startswith(before))
        self.assertEqual([r["m"] for r in self.rows()], ["8", "11", "14"])

    def test_another_configuration_is_refused(self):
        self.write("M,K,N\n8,9,10\n")
        self.bench()
        for option, value, name in [("--seed", 7, "seed"), ("-n", 3, "ranks"),
                                    ("--workspace", "staged", "workspace"),
                                    ("--c-type", "bf16", "c_type"), ("--no-bias", None, "bias")]:
            options = (option,) if value is None else (option, value)
            self.refuse("bench", OPS[1], "--shapes", "shapes.csv", "--out", "out", *FAST, *options,
                        names=["out.csv", name, "--out"])
        self.refuse("bench", OPS[0], "--shapes", "shapes.csv", "--out", "out", *FAST,
                    names=[OPS[0], OPS[1], "--out"])
        self.write("M,K,N\n1,2,3\n", "out.csv")
        self.refuse("bench", OPS[1], "--shapes", "shapes.csv", "--out", "out", *FAST,
                    names=["out.csv", "--out"])

    def test_lists_that_are_wrong(self):
        for text, names in [
            ("", ["no shape"]), ("M,K,N\n\n", ["no shape"]), ("A,B\n", [":1:", "no M"]),
            ("M,K\n1,2\n", [":1:", "no N"]), ("M,K,N,k\n1,2,3,4\n", [":1:", "K twice"]),
            ("M,K,N\n1,2,3\n\n4,x,6\n", [":4:", "K", "'x'"]),
            ("M,K,N\n1,2,3\n4,5\n", [":3:", "no N"]), ("M,K,N\n0,2,3\n", [":2:", "M", "'0'", "1.."]),
            ("M,K,N\n1,2.5,3\n", [":2:", "'2.5'"]), ("1,2,3\n", [":1:", "header"]),
        ]:
            self.write(text)
            self.refuse("bench", OPS[1], "--shapes", "shapes.csv", names=["shapes.csv", *names])
        for path in ("absent.csv", "."):
            self.refuse("bench", OPS[1], "--shapes", path, names=[path, "M, K and N"])
        self.write("M,K,N\n1,2,3\n")
        self.refuse("bench", OPS[1], "--shapes", "shapes.csv", "--m", 5, names=["--m", "--shapes"])
        for budget in ("soon", "0", "-5s", "5d"):
            self.refuse("bench", OPS[1], "--time-budget", budget, names=[f"'{budget}'", "10m"])
        self.refuse("bench", OPS[1], "--shapes", "shapes.csv", "--out", "no/such/folder",
                    code=FAILURE, names=["no/such/folder"])

    def test_m_per_rank(self):
        self.write("M,K,N\n8,9,10\n")
        self.bench("--m-per-rank", "-n", 3)
        self.assertEqual(self.rows()[0]["m"], "24")

    def test_shapes_too_large_for_memory_are_skipped_with_the_reason(self):
        self.write(f"M,K,N\n{2**38},{2**38},8\n5,6,7\n")
        done = self.bench()
        self.assertIn(f"skipped {2**38} x {2**38} x 8", done.out)
        self.assertIn("MiB", done.out)
        self.assertEqual([r["m"] for r in self.rows()], ["5"])

    def test_a_budget_stops_in_time_and_the_next_call_goes_on(self):
        # Each shape takes about 50 ms a round over this link, so that a second is soon spent.
        self.write("M,K,N\n" + "".join(f"{m},100,8\n" for m in range(1, 61)))
        slow = ("--transport", "sim", "--link", "1GB/s,20ms", "--time-budget", "1s")
        done = self.bench(*slow)
        first = len(self.rows())
        self.assertGreater(first, 0)
        self.assertLess(first, 60)
        self.assertIn(f"{60 - first} shapes left", done.out)
        self.bench(*slow)
        self.assertGreater(len(self.rows()), first)

    def test_an_interrupted_run_keeps_what_it_has(self):
        self.write("M,K,N\n" + "".join(f"{m},100,8\n" for m in range(1, 41)))
        options = ("bench", OPS[0], "--shapes", "shapes.csv", "--out", "out", *FAST,
                   "--transport", "sim", "--link", "1GB/s,20ms")
        started = self.start(*options)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if (self.folder / "out.csv").exists() and len(self.rows()) >= 2:
                break
            time.sleep(0.01)
        started.interrupt()
        done = started.finish()
        self.assertEqual(done.code, 128 + signal.SIGINT, done)
        self.assert_nothing_left(done)
        kept = (self.folder / "out.csv").read_bytes()
        self.tandem(*options)
        self.assertTrue((self.folder / "out.csv").read_bytes().startswith(kept))
        self.assertEqual(len(self.rows()), 40)


if __name__ == "__main__":
    unittest.main()
