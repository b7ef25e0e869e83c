#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Command lines that are wrong, and how they are refused: exit code 2 (3 when only the machine says
# no), and a message that names the value, its bound and the remedy. Every new option needs a line
# here. Run by ctest as cli.usage.
import pathlib
import re
import subprocess
import unittest

from command import BAD_USAGE, COMMAND, FAILURE, CommandTest

COMPLETION = pathlib.Path(__file__).resolve().parents[2] / "tools/completion/tandem"

OP = "allgather-gemm"
SMALL = ("--m", 8, "--k", 8, "--n", 8)


class Usage(CommandTest):
    def test_help_has_an_example_for_every_command(self):
        for command in (["info"], ["gen", OP], ["run", OP], ["bench", OP], ["trial", OP], ["check"],
                        ["plan"], ["launch"]):
            done = self.tandem(*command, "--help")
            self.assertRegex(done.out, r"Examples?:\n  tandem " + command[0])
            self.assertEqual(done.err, "")
        for command in ([], ["gen"], ["run"], ["bench"], ["trial"]):
            self.assertIn("tandem", self.tandem(*command, "--help").out)

    def test_version(self):
        self.assertRegex(self.tandem("--version").out, r"^tandem \d+\.\d+\.\d+\n$")

    def test_commands_and_operators_that_do_not_exist(self):
        self.refuse(names=["no command", "bench"])
        self.refuse("fly", names=["'fly'", "bench"])
        self.refuse("bench", names=["no operator", OP])
        self.refuse("bench", "scatter", names=["'scatter'", OP])
        self.refuse("run", OP, "--fly", names=["--fly", f"tandem run {OP} --help"])
        self.refuse("info", "now", names=["now"])
        self.refuse("run", OP, "--", "true", names=["--"])

    def test_numbers_out_of_bounds(self):
        for option, value, bound in [
            ("-n", 0, "1..64"), ("-n", 65, "1..64"), ("-n", "two", "1..64"), ("-n", "1.5", "1..64"),
            ("--m", -1, "0.."), ("--k", 0, "1.."), ("--n", 0, "1.."), ("--n", "", "1.."),
            ("--k", "99999999999999999999", "1.."), ("--tile-m", -1, "0.."),
            ("--tile-k", "x", "0.."), ("--compute-threads", 0, "1..1024"),
            ("--comm-threads", 17, "1..16"), ("--iters", 0, "1.."), ("--seed", -1, "0.."),
            ("--timeout", 0, "1.."),
        ]:
            self.refuse("run", OP, option, value, names=[f"'{value}'", bound])
        self.refuse("bench", OP, "--warmup", -1, names=["--warmup", "'-1'"])
        self.refuse("run", OP, "--k", 4, "--k", 5, names=["--k", "once"])
        self.refuse("run", OP, "--k", names=["--k"])

    def test_mpi_ranks_come_from_mpirun(self):
        with_mpi = "MPI" in self.tandem("info").out.partition("MPI  ")[2].partition("\n")[0]
        if not with_mpi:
            self.refuse("run", OP, "--transport", "mpi", names=["no MPI", "TANDEM_MPI=ON"])
            return
        self.refuse("run", OP, "--transport", "mpi", "-n", 2, names=["--ranks is 2", "mpirun -n 2"])
        self.refuse("run", OP, "--transport", "mpi", "--rows", "1,2", names=["2 entries", "1 rank"])
        self.refuse("bench", OP, "--transport", "mpi", "--ranks-as", "thread", names=["mpirun"])

    def test_words_that_are_not_among_the_choices(self):
        for option, value, choice in [
            ("--a-type", "s8", "bf16"), ("--c-type", "f64", "bf16"), ("--b-layout", "nn", "nk"),
            ("--transfer", "shove", "pull"), ("--transport", "tcp", "mpi"),
            ("--ranks-as", "fiber", "thread"), ("--kernel", "sse9", "scalar"),
        ]:
            self.refuse("run", OP, option, value, names=[option, f"'{value}'", choice])
        self.refuse("check", "a", "b", "--type", "f8", names=["'f8'", "bf16"])
        self.refuse("check", "a", "b", names=["--type"])

    def test_rows_must_fit_ranks_and_m(self):
        self.refuse("run", OP, "--rows", "1,x,3", names=["'x'", "1,x,3"])
        self.refuse("run", OP, "--rows", "1,-2", names=["'-2'"])
        self.refuse("run", OP, "--rows", "1,,2", names=["''"])
        self.refuse("run", OP, "-n", 3, "--rows", "1,2", names=["2 entries", "3 ranks"])
        self.refuse("run", OP, "--m", 9, "--rows", "1,2", names=["9", "3"])
        self.refuse("run", OP, "--rows", ",".join("1" * 65), names=["65", "64"])

    def test_links(self):
        self.refuse("run", OP, "--link", "1Gbit/s,50us", names=["--link", "--transport"])
        for link in ("fast", "1Gbps", "0bit/s", "1Gbit/s,-1us", "1Gbit/s,50us,seed=x"):
            self.refuse("run", OP, "--transport", "sim", "--link", link, names=[link, "1Gbit/s"])

    def test_plans(self):
        for option, value, bound in [
            ("--ranks", "2,x", "1..1000000"), ("--ranks", "0", "1..1000000"), ("--m", 0, "1.."),
            ("--gflops", 0, "above 0"), ("--gflops", "nan", "above 0"), ("--memory", -1, "above 0"),
            ("--chunk-cost", -1, "0 or more"), ("--byte-cost", "1e999", "0 or more"),
            ("--wiring", "star", "mesh"), ("--a-type", "s32", "s8"), ("--link", "fast", "1Gbit/s"),
            ("--ranks-per-node", 0, "1.."),
        ]:
            self.refuse("plan", option, value, names=[option, str(value).split(",")[-1], bound])
        self.refuse("plan", "--m", 5, "--rows-per-rank", 6, names=["--m", "--rows-per-rank"])
        self.refuse("plan", "--n", 5, "--n-total", 6, names=["--n", "--n-total"])
        self.refuse("plan", "--m", 100, "--gflops", 1, names=["100", "4096", "--rows-per-rank"])
        huge = 2**40
        self.refuse("plan", "--m", huge, "--k", huge, "--gflops", 1, names=["rows"])

    def test_shapes_that_no_memory_holds(self):
        huge = 2**40
        for command in ("run", "bench", "gen"):
            self.refuse(command, OP, "--m", huge, "--k", huge, "--n", 8, code=FAILURE,
                        names=[str(huge), "MiB", "smaller"])
        self.refuse("run", OP, "--m", 8, "--k", 8, "--n", huge, "--ranks-as", "thread",
                    code=FAILURE, names=[str(huge), "MiB"])

    def test_environment_that_is_not_a_number(self):
        for name, value in [("TANDEM_TIMEOUT_MS", "soon"), ("TANDEM_KERNEL", "sse9")]:
            self.refuse("run", OP, *SMALL, env={name: value}, names=[name, value])
        self.refuse("run", OP, *SMALL, env={"TANDEM_RANK": "0", "TANDEM_SIZE": "many"},
                    names=["TANDEM_SIZE", "many", "1..64"])
        self.refuse("run", OP, *SMALL, names=["TANDEM_RANK", "first"],
                    env={"TANDEM_RANK": "first", "TANDEM_SIZE": "2", "TANDEM_FD": "7"})

    def test_the_same_error_of_all_ranks_is_said_once(self):
        done = self.refuse("run", OP, "-n", 5, *SMALL, env={"TANDEM_KERNEL": "sse9"},
                           names=["sse9"])
        self.assertEqual(len(done.err.splitlines()), 1, done)

    def test_json_reports_failures_as_an_object(self):
        for arguments, code in [
            (("bench", OP, "--k", 0, "--json"), BAD_USAGE),
            (("run", OP, "--m", 2**40, "--json"), FAILURE),
            (("run", OP, "--json", "--data-dir", "absent"), BAD_USAGE),
            (("check", "a", "b", "--type", "f32", "--json"), BAD_USAGE),
        ]:
            done = self.tandem(*arguments, code=code)
            error = done.json()["error"]
            self.assertEqual(error["exit_code"], code)
            self.assertTrue(error["code"])
            for line in error["message"].splitlines():
                self.assertIn(line, done.err)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = (f'source "{COMPLETION}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tandem;'
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", COMMAND, *words], text=True,
                              capture_output=True, check=True)
        return done.stdout.split()

    def test_completion(self):
        self.assertIn("launch", self.complete(""))
        self.assertEqual(self.complete("ben"), ["bench"])
        self.assertIn(OP, self.complete("run", ""))
        self.assertEqual(self.complete("run", OP, "--a-type", "b"), ["bf16"])
        self.assertIn("scalar", self.complete("run", OP, "--kernel", "s"))
        dequant = "allgather-gemm-dequant"
        self.assertEqual(self.complete("run", OP, "--workspace", "d"), ["direct"])
        for command in (["gen", OP], ["run", OP], ["bench", OP], ["run", dequant],
                        ["trial", dequant], ["check"], ["plan"], ["launch"]):
            options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", self.tandem(*command, "--help").out,
                                     re.M))
            self.assertLessEqual(options - {"--help"}, set(self.complete(*command, "--")))

    def test_standard_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            done = self.start("info", stdout=full).finish()
        self.assertEqual(done.code, FAILURE, done)
        self.assertIn("standard output", done.err)


if __name__ == "__main__":
    unittest.main()
