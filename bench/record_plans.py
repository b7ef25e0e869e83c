#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Records what `tandem bench` measures, so that a test can hold the model of tandem/plan.h to it
# without a clock: one line of CSV for each run. Either runs a grid over the simulated link itself,
# or takes the output of any `tandem bench … --json`, whatever the transport. docs/scaling.md shows
# what came out. Start reading at main().
#
#   record_plans.py --tandem build/tools/tandem --source "sim on 2 cores" > tests/stream/plan_records.csv
#   record_plans.py --source "2 hosts" --link 1Gbit/s,100us --ranks-per-node 2 a.json b.json
#
# A run during which the machine was busy is repeated, a few times at most, then left out. The
# criteria are its own: how far its times spread, and that its sequential time is the sum of its
# parts. What the model says is never one.
import argparse
import csv
import itertools
import json
import re
import subprocess
import sys

FIELDS = ["source", "transport", "link_bytes_per_second", "link_latency_s", "ranks",
          "ranks_per_node", "rows", "k", "n", "element_bytes", "block_quantum", "tile_m", "tile_k",
          "chunk_cost_us", "byte_cost_ns",
          "compute_ms", "comm_ms", "sequential_ms", "pipelined_ms"]
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "s8": 1}
MOST_SPREAD = 1.10  # largest over median of a time, and sequential over compute + comm, or inverse
ATTEMPTS = 4

# Ranks, M, K, N, tile rows (0: the operator's own choice), link.
GRID = [
    *itertools.product([2], [1024], [2048], [64, 256, 512, 1024], [0, 8, 48, 256],
                       ["1Gbit/s,50us"]),
    *itertools.product([2], [4096], [1024], [256], [0, 16, 512], ["1Gbit/s,50us"]),
    *itertools.product([3], [960], [2048], [256, 512], [0, 160], ["1Gbit/s,1ms"]),
    *itertools.product([4], [1024], [2048], [128, 256], [0, 8, 256], ["1Gbit/s,50us"]),
    *itertools.product([2], [2048], [2048], [128, 512], [0, 16], ["4Gbit/s,20us"]),
    *itertools.product([2, 4], [128], [8192], [512], [0], ["1Gbit/s,50us"]),
]

UNITS = {"bit/s": 1 / 8, "kbit/s": 125, "Mbit/s": 125e3, "Gbit/s": 125e6, "Tbit/s": 125e9,
         "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}
TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}


def quantity(text, units):
    match = re.fullmatch(r"([0-9.e+-]+)([a-zA-Z/]+)", text)
    if not match or match[2] not in units:
        sys.exit(f"record_plans: '{text}' is not a number with one of {', '.join(units)}")
    return float(match[1]) * units[match[2]]


def mr_of(tandem, kernel, a_type):
    """Rows of the kernel's register block: row blocks are cut to multiples of it."""
    info = json.loads(subprocess.run([tandem, "info", "--json"], capture_output=True, text=True,
                                     check=True).stdout)
    for row in info["kernels"]:
        if row["target"] == kernel and row["type"] == a_type:
            return row["mr"]
    sys.exit(f"record_plans: {tandem} has no {a_type} kernel '{kernel}', which the report names")


def record(report, args):
    """One line of the table, from one report of `tandem bench --json`."""
    link = args.link or report.get("link")
    if not link:
        sys.exit("record_plans: the report names no link: say what carried it with --link")
    parts = link.split(",")
    rows = report["rows"]
    if max(rows) - min(rows) > 1:
        sys.exit(f"record_plans: rows are {rows}; the model takes shards of one size")
    if report["ranks"] <= args.ranks_per_node:
        sys.exit(f"record_plans: {report['ranks']} ranks on machines of {args.ranks_per_node}: no "
                 "link carried anything")
    a_type = "s8" if report["op"].endswith("dequant") else report["a_type"]
    return {
        "source": args.source, "transport": report["transport"],
        "link_bytes_per_second": f"{quantity(parts[0], UNITS):.9g}",
        "link_latency_s": f"{quantity(parts[1], TIMES) if len(parts) > 1 else 0:.9g}",
        "ranks": report["ranks"], "ranks_per_node": args.ranks_per_node, "rows": max(rows),
        "k": report["k"], "n": report["n"], "element_bytes": BYTES[a_type],
        "block_quantum": mr_of(args.tandem, report["kernel"], a_type),
        "tile_m": report["tile_m"], "tile_k": report["tile_k"],
        "chunk_cost_us": f"{args.chunk_cost:g}", "byte_cost_ns": f"{args.byte_cost:g}",
        **{f"{mode}_ms": f"{report[key]['median']:.4f}" for mode, key in
           [("compute", "compute_only_ms"), ("comm", "comm_only_ms"),
            ("sequential", "sequential_ms"), ("pipelined", "pipelined_ms")]}}


def spread(report):
    compute, comm, sequential = (report[f"{mode}_ms"]["median"]
                                 for mode in ("compute_only", "comm_only", "sequential"))
    sum_error = sequential / (compute + comm)
    return max(sum_error, 1 / sum_error,
               *(report[key]["max"] / report[key]["median"]
                 for key in ("compute_only_ms", "pipelined_ms")))


def measure(tandem, ranks, m, k, n, tile_m, link):
    """The quietest of a few runs, and the first that is quiet enough."""
    best = None
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [tandem, "bench", "allgather-gemm", "-n", str(ranks), "--m", str(m), "--k", str(k),
             "--n", str(n), "--tile-m", str(tile_m), "--transport", "sim", "--link", link,
             "--iters", "7", "--warmup", "2", "--json", "--quiet"],
            capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"record_plans: {done.args} failed:\n{done.stderr}")
        report = json.loads(done.stdout)
        if best is None or spread(report) < spread(best):
            best = report
        if spread(best) <= MOST_SPREAD:
            break
    print(f"{ranks} ranks {m}x{k}x{n} tile {tile_m} {link}: spread {spread(best):.2f}",
          file=sys.stderr)
    return best if spread(best) <= MOST_SPREAD else None


def main():
    parser = argparse.ArgumentParser(description="Records runs for the test of the plan's model.")
    parser.add_argument("reports", nargs="*", help="outputs of `tandem bench --json`; none: run "
                        "the grid over the simulated link")
    parser.add_argument("--tandem", default="tandem", help="the command")
    parser.add_argument("--source", required=True, help="what was measured, in a few words")
    parser.add_argument("--link", help="BANDWIDTH,LATENCY of reports that name none")
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument("--chunk-cost", type=float, default=45, help="CPU time of a chunk in us, as "
                        "`tandem plan` takes it (default 45)")
    parser.add_argument("--byte-cost", type=float, default=0, help="CPU time of a byte in ns "
                        "(default 0)")
    args = parser.parse_args()
    if "," in args.source or '"' in args.source:
        parser.error(f"--source '{args.source}' has a comma or a quote; the table is read without "
                     "quoting")

    reports = []
    for path in args.reports:
        try:
            with open(path, encoding="utf-8") as file:
                reports.append(json.load(file))
        except (OSError, ValueError) as error:
            parser.error(f"{path} is not the output of `tandem bench --json`: {error}")
    if not reports:
        reports = [report for setting in GRID if (report := measure(args.tandem, *setting))]
    writer = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
    writer.writeheader()
    for report in reports:
        writer.writerow(record(report, args))


if __name__ == "__main__":
    main()
