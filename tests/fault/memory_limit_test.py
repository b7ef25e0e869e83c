#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The command under `ulimit -v`, from too little to start up to plenty: it works, or says on standard
# error why not, and no process of it dies of a signal.
#
#   memory_limit_test.py [--step MIB]    TANDEM_COMMAND is the command; --step 1 tries every limit
import argparse
import os
import resource
import subprocess
import sys
import tempfile

COMMAND = os.environ.get("TANDEM_COMMAND", "tandem")
SHAPE = ["--m", "600", "--k", "512", "--n", "256"]
COMMANDS = {
    "run, thread ranks": ["run", "allgather-gemm", *SHAPE, "--ranks", "3", "--ranks-as", "thread",
                          "--compute-threads", "2", "--comm-threads", "2"],
    "run, process ranks": ["run", "allgather-gemm", *SHAPE, "--ranks", "3"],
    "run, dequant": ["run", "allgather-gemm-dequant", *SHAPE, "--ranks", "3", "--ranks-as",
                     "thread"],
    "bench": ["bench", "allgather-gemm", *SHAPE, "--ranks", "2", "--iters", "2", "--warmup", "1"],
}
FIRST, LAST = 16, 500  # MiB
LIMIT = 120  # seconds
# What the system says where not even the libraries can be loaded, or the program not be started.
LOADER = ["error while loading shared libraries", "cannot allocate memory", "Cannot allocate memory"]


def wrong_with(done):
    """Empty when this end of a command is one that a user can read."""
    text = done.stderr
    if done.returncode < 0 or done.returncode > 128:
        if done.returncode < 0 and not text and done.args_limit < 32:
            return ""  # killed by the kernel while it was being started
        return f"it ended with {done.returncode}"
    for word in ["terminate called", "SIGSEGV", "SIGABRT", "SIGBUS", "what():"]:
        if word in text:
            return f"it says {word}"
    if done.returncode == 0:
        return ""
    if not text.strip():
        return f"it ended with {done.returncode} and said nothing"
    if done.returncode == 127 and any(word in text for word in LOADER):
        return ""
    strange = [line for line in text.splitlines()
               if not line.startswith(("tandem: ", "rank ")) and not any(w in line for w in LOADER)]
    return f"a line is not the command's: {strange[0]!r}" if strange else ""


def run(arguments, mib, folder):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    env = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_")}
    env["TANDEM_TIMEOUT_MS"] = "20000"
    done = subprocess.run([COMMAND, *arguments], preexec_fn=limit, env=env, cwd=folder, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=LIMIT)
    done.args_limit = mib
    return done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=int, default=44, help="MiB from one limit to the next (44)")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tandem-limit-") as folder:
        for name, arguments in COMMANDS.items():
            codes = {}
            for mib in range(FIRST, LAST + 1, options.step):
                try:
                    done = run(arguments, mib, folder)
                    wrong = wrong_with(done)
                except subprocess.TimeoutExpired:
                    done, wrong = None, f"it had not ended after {LIMIT} s"
                if wrong:
                    failed += 1
                    print(f"FAILED {name} with {mib} MiB: {wrong}")
                    print(f"  ulimit -v {mib << 10}; {COMMAND} {' '.join(arguments)}")
                    if done:
                        print("  " + "\n  ".join(done.stderr.splitlines()[-20:]))
                elif done:
                    codes[done.returncode] = codes.get(done.returncode, 0) + 1
            ends = ", ".join(f"{count} × code {code}" for code, count in sorted(codes.items()))
            print(f"{name}: {ends}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
