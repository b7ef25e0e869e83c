#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# `tandem plan`: the table and its words, the JSON, and that a measured rate is one. What the model
# computes is tested in tests/stream/plan_test.cc. Run by ctest as cli.plan.
import unittest

from command import CommandTest

GIVEN = ("--gflops", 100)


class Plan(CommandTest):
    def plan(self, *options):
        return self.tandem("plan", *options, "--json").json()

    def test_the_table_has_a_row_for_every_number_of_ranks(self):
        text = self.tandem("plan", *GIVEN).out
        for ranks in (2, 64, 4096):
            self.assertRegex(text, rf"(?m)^ +{ranks} +{ranks} ")
        counts = [p["ranks"] for p in self.plan(*GIVEN)["points"]]
        self.assertEqual(counts, [2**i for i in range(1, 13)])
        counts = [p["ranks"] for p in self.plan(*GIVEN, "--ranks", "8,2,8")["points"]]
        self.assertEqual(counts, [2, 8])

    def test_words_name_the_bound_and_what_would_change_it(self):
        link = self.tandem("plan", *GIVEN, "--ranks", "4,8", "--n", 32).out
        self.assertIn("- 4 to 8 ranks: bound by the link", link)
        self.assertRegex(link, r"Compute-bound from N = \d+ at 4 ranks and \d+ at 8, or with a link")
        self.assertIn("one row block of the multiply", link)
        compute = self.tandem("plan", *GIVEN, "--ranks", 4, "--n", 8192).out
        self.assertIn("4 ranks: compute-bound", compute)
        self.assertRegex(compute, r"down to N = \d+")
        chunks = self.tandem("plan", *GIVEN, "--rows-per-rank", 1, "--k", 64, "--n", 64).out
        self.assertIn("CPU time of chunks", chunks)
        nodes = self.tandem("plan", *GIVEN, "--ranks", "4,32", "--ranks-per-node", 4).out
        self.assertIn("once for each machine, not once for each of its 4 ranks", nodes)

    def test_json_has_the_figures_of_bench(self):
        plan = self.plan(*GIVEN, "--ranks", 4, "--m", 1024, "--k", 512, "--n", 256)
        self.assertEqual((plan["rank_gflops"], plan["rank_gflops_from"]), (100, "given"))
        point = plan["points"][0]
        self.assertAlmostEqual(point["compute_ms"], 2 * 1024 * 512 * 256 / 100e9 * 1e3, places=9)
        self.assertEqual(point["wire_bytes_per_machine"], 3 * 256 * 512 * 2)
        self.assertEqual(point["sequential_ms"], point["compute_ms"] + point["comm_ms"])
        for key in ("fused_ms", "speedup", "overlap_efficiency", "pipelined_over_max", "bound",
                    "exposed_comm_ms", "chunks_per_source", "tile_m", "tile_k", "transfer"):
            self.assertIn(key, point)
        self.assertTrue(plan["explanation"])

    def test_options_reach_the_model(self):
        def point(*options):
            return self.plan(*GIVEN, "--ranks", 8, *options)["points"][0]
        base = point()
        self.assertEqual(point("--n-total", 1024)["n"], 128)
        self.assertEqual(point("--rows-per-rank", 33)["rows_per_rank"], 33)
        self.assertEqual(point("--tile-m", 24)["tile_m"], 24)
        self.assertEqual(point("--a-type", "f32")["wire_bytes_per_machine"],
                         2 * base["wire_bytes_per_machine"])
        self.assertLess(point("--link", "10Gbit/s,50us")["comm_ms"], base["comm_ms"])
        self.assertLess(point("--wiring", "mesh")["comm_ms"], base["comm_ms"])
        self.assertLess(point("--chunk-cost", 0)["fused_ms"], base["fused_ms"])
        self.assertGreater(point("--byte-cost", 1)["fused_ms"], base["fused_ms"])
        self.assertEqual(point("--ranks-per-node", 8)["machines"], 1)

    def test_the_rate_is_measured_when_none_is_given(self):
        for options in ([], ["--a-type", "s8"], ["--ranks-per-node", 2]):
            plan = self.plan("--ranks", 2, "--k", 128, "--n", 64, *options)
            self.assertGreater(plan["rank_gflops"], 0)
            self.assertRegex(plan["rank_gflops_from"], r"^measured here: \w+, \d rank")


if __name__ == "__main__":
    unittest.main()
