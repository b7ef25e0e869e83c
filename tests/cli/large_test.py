#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Verification by a sample and by the product check, workspaces, and the options of the s8 operator:
# what is checked, what is written, what is refused. Run by ctest as cli.large.
import struct
import unittest

from command import NOT_VERIFIED, CommandTest

GEMM, DEQUANT = "allgather-gemm", "allgather-gemm-dequant"
SHAPE = ("--rows", "300,0,41", "--k", 77, "--n", 31)


class Large(CommandTest):
    def run_op(self, op, *options, **expect):
        return self.tandem("run", op, *SHAPE, "--json", *options, **expect)

    def test_a_sample_covers_every_element_of_the_s8_operator(self):
        for options in [(), ("--row-scales",), ("--a-type", "bf16"), ("--c-type", "s32"),
                        ("--b-layout", "kn", "--accumulators"), ("--scale-size", 40, "--no-bias")]:
            result = self.run_op(DEQUANT, "--verify", "sample", *options).json()
            self.assertTrue(result["verified"])
            self.assertEqual(result["verification"], {"whole": False, "rows": 64, "columns": 8,
                                                      "every_element": True}, options)
        result = self.run_op(GEMM, "--verify", "sample").json()
        self.assertFalse(result["verification"]["every_element"])
        text = self.tandem("run", GEMM, *SHAPE, "--verify", "sample").out
        self.assertIn("were not checked", text)
        text = self.tandem("run", DEQUANT, *SHAPE, "--verify", "sample").out
        self.assertIn("product check", text)

    def test_small_results_are_compared_whole(self):
        for op in (GEMM, DEQUANT):
            result = self.run_op(op).json()
            self.assertTrue(result["verification"]["whole"])
            self.assertEqual(result["different"], [0, 0, 0])

    def test_gen_writes_no_golden_file_for_a_sample_and_removes_an_old_one(self):
        gen = ("gen", DEQUANT, *SHAPE, "--data-dir", "data", "--reuse")
        self.tandem(*gen)
        self.assertTrue((self.folder / "data/golden.bin").exists())
        done = self.tandem(*gen, "--verify", "sample")
        self.assertIn("no golden.bin", done.out)
        self.assertFalse((self.folder / "data/golden.bin").exists())
        for verify, whole in (("auto", True), ("sample", False), ("whole", True)):
            result = self.tandem("run", DEQUANT, "--data-dir", "data", "--verify", verify,
                                 "--json").json()
            self.assertEqual(result["verification"]["whole"], whole)
        self.assertIn("Wrote", self.tandem(*gen).out)

    def test_one_wrong_input_bit_on_one_rank_is_found(self):
        # Rank 1 has other weights than the golden result was made with.
        self.tandem("gen", DEQUANT, *SHAPE, "--data-dir", "data")
        path = self.folder / "data/pe_1_b.bin"
        content = bytearray(path.read_bytes())
        content[1000] ^= 64
        path.write_bytes(content)
        done = self.tandem("run", DEQUANT, "--data-dir", "data", "--json", code=NOT_VERIFIED)
        different = done.json()["different"]
        self.assertEqual((different[0], different[2]), (0, 0))
        self.assertGreater(different[1], 0)
        self.assertIn("rank 1", done.err)

    def test_every_workspace_gives_the_same_bits(self):
        for op in (GEMM, DEQUANT):
            self.tandem("gen", op, *SHAPE, "--data-dir", op)
            golden = (self.folder / op / "golden.bin").read_bytes()
            for options in [("full",), ("direct",), ("staged",),
                            ("staged", "--stages", 3, "--stage-rows", 16, "--transfer", "push")]:
                result = self.tandem("run", op, "--data-dir", op, "--iters", 3, "--json",
                                     "--workspace", *options).json()
                self.assertEqual(result["workspace"], options[0])
                for rank in range(3):
                    output = (self.folder / op / f"output_rank{rank}.bin").read_bytes()
                    self.assertEqual(output, golden)
        window = {w: self.run_op(DEQUANT, "--workspace", w, "--stage-rows", 0).json()["window_bytes"]
                  for w in ("full", "direct")}
        self.assertLess(window["direct"], window["full"])
        for workspace in ("staged", "direct"):
            result = self.tandem("bench", DEQUANT, *SHAPE, "--iters", 2, "--warmup", 0,
                                 "--workspace", workspace, "--json").json()
            self.assertEqual((result["workspace"], result["verified"]), (workspace, True))

    def test_bench_of_the_s8_operator(self):
        for options in [(), ("--row-scales", "--saturate", "--no-bias"), ("--a-type", "f32")]:
            result = self.tandem("bench", DEQUANT, *SHAPE, "--iters", 2, "--warmup", 0, "--json",
                                 *options).json()
            self.assertEqual(result["mask_ratio"], result["overlap_efficiency"])
            self.assertEqual(result["gops_per_rank"], result["gflops_per_rank"])
            self.assertGreater(result["peak_rss_mib"], 1)
            self.assertTrue(result["verified"])
        result = self.tandem("bench", DEQUANT, *SHAPE, "--time-budget", "1s", "--iters", 1000000,
                             "--json").json()
        self.assertLess(result["iterations"], 1000000)

    def test_catccos_file_names(self):
        self.tandem("gen", DEQUANT, *SHAPE, "--data-dir", "data", "--file-names", "catccos",
                    "--row-scales")
        result = self.tandem("run", DEQUANT, "--data-dir", "data", "--accumulators", "--json").json()
        self.assertTrue(result["verified"])
        sizes = {p.name: p.stat().st_size for p in (self.folder / "data").glob("*.bin")}
        expected = {"x2_gm.bin": 77 * 31, "bias_gm.bin": 4 * 31, "scale_x2_gm.bin": 4 * 31,
                    "golden.bin": 341 * 31 * 2}
        for rank, rows in enumerate((300, 0, 41)):
            expected |= {f"x1_gm_rank{rank}.bin": rows * 77, f"scale_x1_gm_rank{rank}.bin": rows * 4,
                         f"output_rank{rank}.bin": 341 * 31 * 2, f"d_gm_rank{rank}.bin": 341 * 62,
                         f"c_gm_rank{rank}.bin": 341 * 31 * 4}
        self.assertEqual(sizes, expected)
        # D[0, 0] from the sums, in f32 as the contract has it, then f16.
        read = lambda name, form: struct.unpack(form, (self.folder / "data" / name).read_bytes()
                                                [:struct.calcsize(form)])[0]
        f32 = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
        value = f32(f32(read("c_gm_rank2.bin", "<i")) * read("scale_x2_gm.bin", "<f"))
        value = f32(value * read("scale_x1_gm_rank0.bin", "<f"))
        self.assertEqual(struct.pack("<e", value),
                         (self.folder / "data/d_gm_rank1.bin").read_bytes()[:2])
        bias = struct.unpack("<31i", (self.folder / "data/bias_gm.bin").read_bytes())
        self.assertTrue(all(-65536 <= b <= 65536 for b in bias) and max(map(abs, bias)) > 20000)

    def test_ones_and_overflow(self):
        self.tandem("gen", DEQUANT, *SHAPE, "--data-dir", "data", "--fill", "ones")
        self.tandem("run", DEQUANT, "--data-dir", "data")
        output = (self.folder / "data/output_rank1.bin").read_bytes()
        self.assertEqual(set(struct.unpack(f"<{341 * 31}e", output)), {(77 + 1) * 0.5})
        self.assertGreater(self.run_op(DEQUANT, "--scale-size", 40).json()["infinite"], 1000)
        self.assertEqual(
            self.run_op(DEQUANT, "--scale-size", 40, "--saturate").json()["infinite"], 0)

    def test_what_does_not_go_together(self):
        for options, names in [
            (("--row-scales", "--a-type", "f16"), ["--row-scales", "f16"]),
            (("--workspace", "direct", "--a-type", "f16"), ["direct", "quantised"]),
            (("--workspace", "direct", "--transfer", "push"), ["direct", "push"]),
            (("--stages", 3), ["--stages", "staged", "full"]),
            (("--workspace", "huge"), ["'huge'", "staged"]),
            (("--workspace", "staged", "--stages", 65), ["'65'", "1..64"]),
            (("--stage-rows", -1), ["'-1'"]), (("--scale-size", 0), ["'0'", "above 0"]),
            (("--scale-size", "nan"), ["'nan'"]), (("--fill", "zeros"), ["'zeros'", "ones"]),
            (("--verify", "some"), ["'some'", "sample"]),
            (("--file-names", "x"), ["'x'", "catccos"]), (("--devices", "0,0"), ["named twice"]),
            (("--devices", "0,,1"), ["''", "0,,1"]), (("--devices", "0,1000"), ["1000", "0.."]),
            (("--devices", "-1"), ["-1"]), (("--devices", "0", "--ranks-as", "thread"), ["thread"]),
            (("--devices", "0", "-n", 2), ["1 devices", "2 ranks"]),
            (("--devices", ",".join(map(str, range(64)))), ["devices"]),
        ]:
            self.refuse("run", DEQUANT, "--m", 8, "--k", 8, "--n", 8, *options, names=names)
        self.refuse("run", GEMM, "--row-scales", names=["--row-scales"])
        self.tandem("gen", DEQUANT, *SHAPE, "--data-dir", "data", "--no-bias")
        for option in ("--bias", "--row-scales", "--saturate"):
            self.refuse("run", DEQUANT, "--data-dir", "data", option, names=[option, "manifest"])


if __name__ == "__main__":
    unittest.main()
