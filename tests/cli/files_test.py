#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# gen, run and check on files: what is written, that it fits together, and what happens when a file
# is missing, of the wrong size, altered, or cannot be written. Run by ctest as cli.files.
import json
import os
import resource
import signal
import struct
import subprocess
import time
import unittest

from command import COMMAND, FAILURE, NOT_VERIFIED, CommandTest, clean_environment

OP = "allgather-gemm"
ROWS = [20, 0, 33]
K, N = 77, 31
SHAPE = ("--rows", ",".join(map(str, ROWS)), "--k", K, "--n", N)


class Files(CommandTest):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"

    def gen(self, *options, **expect):
        return self.tandem("gen", OP, *SHAPE, "--data-dir", "data", *options, **expect)

    def run_op(self, *options, **expect):
        return self.tandem("run", OP, "--data-dir", "data", *options, **expect)

    def flip_bit(self, name, offset):
        path = self.data / name
        content = bytearray(path.read_bytes())
        content[offset] ^= 1
        path.write_bytes(content)

    def test_sizes_and_values(self):
        self.gen()
        for rank, rows in enumerate(ROWS):
            self.assertEqual((self.data / f"pe_{rank}_a.bin").stat().st_size, rows * K * 2)
            self.assertEqual((self.data / f"pe_{rank}_b.bin").stat().st_size, N * K * 2)
        self.assertEqual((self.data / "golden.bin").stat().st_size, sum(ROWS) * N * 4)
        # C[0, 0] in double precision, from files alone: B is N x K.
        a = struct.unpack(f"<{K}e", (self.data / "pe_0_a.bin").read_bytes()[:2 * K])
        b = struct.unpack(f"<{K}e", (self.data / "pe_2_b.bin").read_bytes()[:2 * K])
        golden, = struct.unpack("<f", (self.data / "golden.bin").read_bytes()[:4])
        self.assertAlmostEqual(golden, sum(x * y for x, y in zip(a, b)), places=4)
        self.assertGreater(len(set(a)), K // 2)

    def test_run_takes_the_shape_from_the_manifest_and_verifies(self):
        self.gen()
        done = self.run_op()
        self.assertIn("Verification PASSED", done.out)
        for rank in range(len(ROWS)):
            output = (self.data / f"output_rank{rank}.bin").read_bytes()
            self.assertEqual(output, (self.data / "golden.bin").read_bytes())
        self.assertEqual(self.run_op("--quiet").out, "")

    def test_every_type_layout_and_way_to_run(self):
        for a_type in ("f16", "bf16", "f32"):
            for c_type, layout, how in [
                ("f32", "nk", ()), ("f16", "kn", ("--ranks-as", "thread")),
                ("bf16", "nk", ("--transfer", "push", "--comm-threads", 2, "--kernel", "scalar")),
                ("f32", "kn", ("--transport", "sim", "--link", "1GB/s,10us", "--tile-m", 7)),
            ]:
                with self.subTest(a_type=a_type, c_type=c_type, layout=layout):
                    self.gen("--a-type", a_type, "--c-type", c_type, "--b-layout", layout,
                             "--seed", 7)
                    result = self.run_op("--json", "--iters", 2, *how).json()
                    self.assertTrue(result["verified"])
                    self.assertEqual(result["a_type"], a_type)
                    self.assertTrue(result["verified_against"].endswith("golden.bin"))

    def test_without_golden_the_reference_decides(self):
        self.gen()
        (self.data / "golden.bin").unlink()
        self.assertEqual(self.run_op("--json").json()["verified_against"], "the reference")

    def test_files_of_ones_own_need_no_manifest(self):
        self.gen()
        (self.data / "manifest.json").unlink()
        self.run_op(*SHAPE)
        self.refuse("run", OP, "--data-dir", "data", names=["bytes", "expected"])

    def test_options_that_contradict_the_manifest(self):
        self.gen()
        for option, value, made in [("--k", K + 1, K), ("-n", 2, 3), ("--b-layout", "kn", "nk"),
                                    ("--c-type", "f16", "f32"), ("--rows", "33,0,20", "20,0,33")]:
            self.refuse("run", OP, "--data-dir", "data", option, value,
                        names=[str(value), str(made), "manifest.json"])
        (self.data / "manifest.json").write_text("{ half of it")
        self.refuse("run", OP, "--data-dir", "data", names=["manifest.json"])
        (self.data / "manifest.json").write_text('{"op": 3}')
        self.refuse("run", OP, "--data-dir", "data", names=["manifest.json"])

    def test_missing_and_wrong_sized_files(self):
        self.refuse("run", OP, "--data-dir", "absent", names=["absent", "tandem gen"])
        self.gen()
        size = ROWS[2] * K * 2
        shard = self.data / "pe_2_a.bin"
        whole = shard.read_bytes()
        for content in (whole[:-2], whole + b"\0", b""):
            shard.write_bytes(content)
            self.refuse("run", OP, "--data-dir", "data",
                        names=["rank 2", "pe_2_a.bin", str(len(content)), str(size), f"33 x {K} f16"])
        shard.unlink()
        done = self.refuse("run", OP, "--data-dir", "data", names=["rank 2", "pe_2_a.bin"])
        self.assertEqual(len(done.err.splitlines()), 1, done)
        shard.write_bytes(whole)
        (self.data / "golden.bin").write_bytes(b"1234")
        self.refuse("run", OP, "--data-dir", "data", names=["golden.bin", "4", str(53 * N * 4)])

    def test_one_wrong_bit_is_found_and_named(self):
        self.gen()
        self.flip_bit("golden.bin", 4 * (40 * N + 17))
        done = self.run_op(code=NOT_VERIFIED)
        self.assertIn("Verification FAILED", done.out)
        self.assertIn(f"1 of {sum(ROWS) * N} elements differs, the first at (40, 17)", done.err)
        self.assertEqual(done.err.count("differs"), 1, "all ranks say the same: once is enough")
        self.assertFalse(self.run_op("--json", code=NOT_VERIFIED).json()["verified"])

    def test_check(self):
        self.gen()
        self.run_op("--quiet")
        out, golden = "data/output_rank1.bin", "data/golden.bin"
        self.assertIn("equal", self.tandem("check", out, golden, "--type", "f32").out)
        self.flip_bit("output_rank1.bin", 4 * (40 * N + 17))
        done = self.tandem("check", out, golden, "--type", "f32", "--cols", N, code=NOT_VERIFIED)
        self.assertIn("(40, 17)", done.out)
        result = self.tandem("check", out, golden, "--type", "f32", "--cols", N, "--json",
                             code=NOT_VERIFIED).json()
        self.assertEqual((result["first_row"], result["first_col"], result["different"]),
                         (40, 17, 1))
        self.refuse("check", out, "data/absent", "--type", "f32", names=["absent"])
        self.refuse("check", "absent", golden, "--type", "f32", names=["absent"])
        self.refuse("check", out, "data", "--type", "f32", names=["data"])
        self.refuse("check", out, "data/pe_0_a.bin", "--type", "f16",
                    names=[str(sum(ROWS) * N * 4), str(ROWS[0] * K * 2)])
        self.refuse("check", out, golden, "--type", "f32", "--cols", 1000, names=["4000"])

    def test_any_nan_equals_any_nan(self):
        (self.folder / "x").write_bytes(struct.pack("<2I", 0x7FC00000, 0x3F800000))
        (self.folder / "y").write_bytes(struct.pack("<2I", 0xFFC00001, 0x3F800000))
        self.tandem("check", "x", "y", "--type", "f32")
        self.tandem("check", "x", "y", "--type", "s32", code=NOT_VERIFIED)

    def test_reuse_keeps_what_is_demonstrably_the_same(self):
        self.assertFalse(self.gen("--reuse", "--json").json()["reused"])
        before = (self.data / "golden.bin").stat().st_mtime_ns
        self.assertTrue(self.gen("--reuse", "--json").json()["reused"])
        self.assertEqual((self.data / "golden.bin").stat().st_mtime_ns, before)
        self.assertFalse(self.gen("--reuse", "--json", "--seed", 9).json()["reused"])
        self.flip_bit("pe_2_a.bin", 100)
        self.assertFalse(self.gen("--reuse", "--json", "--seed", 9).json()["reused"])
        (self.data / "pe_0_b.bin").unlink()
        self.assertFalse(self.gen("--reuse", "--json", "--seed", 9).json()["reused"])
        self.run_op()

    def test_folders_and_files_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        for folder in ("file", "file/below", "/proc/tandem"):
            self.refuse("gen", OP, *SHAPE, "--data-dir", folder, code=FAILURE,
                        names=[folder, "--data-dir"])
        self.gen()
        (self.data / "output_rank2.bin").mkdir()
        self.refuse("run", OP, "--data-dir", "data", code=FAILURE,
                    names=["rank 2", "output_rank2.bin"])

    def test_a_full_disk_leaves_no_partial_file(self):
        self.gen()
        whole = (self.data / "pe_0_b.bin").read_bytes()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

        done = subprocess.run(
            [COMMAND, "gen", OP, *map(str, SHAPE), "--seed", "5", "--data-dir", "data"],
            cwd=self.folder, env=clean_environment(), preexec_fn=limit, capture_output=True,
            text=True)
        self.assertEqual(done.returncode, FAILURE, done)
        self.assertIn("cannot be written", done.stderr)
        self.assertEqual(list(self.data.glob(".*")), [])
        self.assertEqual((self.data / "pe_0_b.bin").read_bytes(), whole, "the old file stays")
        self.assertFalse((self.data / "manifest.json").exists(), "a broken set must not look whole")

    def test_interrupted_while_writing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            started = self.start("gen", OP, "--m", 4096, "--k", 4096, "--n", 2048, "--data-dir",
                                 "data")
            deadline = time.monotonic() + 60
            while not list(self.data.glob(".golden*")) and time.monotonic() < deadline:
                time.sleep(0.01)
            started.interrupt(number)
            done = started.finish()
            self.assertEqual(done.code, -number, done)
            self.assert_nothing_left(done)
            self.assertEqual(list(self.data.glob(".*")), [])
            self.assertFalse((self.data / "golden.bin").exists())
            self.assertFalse((self.data / "manifest.json").exists())

    def test_manifest(self):
        self.gen("--seed", 3)
        manifest = json.loads((self.data / "manifest.json").read_text())
        self.assertEqual(manifest["rows"], ROWS)
        self.assertEqual(manifest["seed"], 3)
        names = {file["name"] for file in manifest["files"]}
        self.assertEqual(names, set(os.listdir(self.data)) - {"manifest.json"})

    def test_no_rows_at_all(self):
        self.tandem("gen", OP, "--m", 0, "--k", 5, "--n", 3, "--data-dir", "data")
        self.run_op()


if __name__ == "__main__":
    unittest.main()
