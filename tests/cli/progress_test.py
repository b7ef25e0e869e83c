#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The progress bar on a terminal: within its width, also when that changes, and no control
# characters where TERM says that they are not understood. Run by ctest as cli.progress.
import unittest

from command import COMMAND, CommandTest, clean_environment
from terminal import Terminal

# Three seconds and more: each call waits for a latency of 50 ms.
SLOW = ("run", "allgather-gemm", "-n", 2, "--m", 64, "--k", 64, "--n", 16, "--transport", "sim",
        "--link", "1Gbit/s,50ms", "--iters", 60, "--verify", "whole")


class ProgressBar(CommandTest):
    def open(self, columns, term):
        terminal = Terminal([COMMAND, *SLOW], self.folder, clean_environment(TERM=term), columns)
        self.addCleanup(terminal.end)
        return terminal

    def test_it_keeps_to_the_width_and_to_a_new_one(self):
        terminal = self.open(60, "xterm")
        terminal.shows(2, "% ")
        wide = len(terminal.text)
        terminal.resize(25)
        terminal.shows(terminal.text.count("\r") + 6, "\r")
        narrow = len(terminal.text)
        terminal.resize(4)
        terminal.says("ended 0")
        for begin, end, columns in ((0, wide, 60), (wide, narrow, 25), (narrow, None, 4)):
            drawn = [line.replace("\x1b[K", "") for line in terminal.text[begin:end].split("\r")
                     if line.endswith("\x1b[K")]
            # The first ones may have been on their way when the width changed.
            self.assertGreater(len(drawn), 3 if begin else 1, terminal.text)
            for line in drawn[2 if begin else 0:]:
                self.assertLess(len(line), columns, terminal.text)

    def test_a_dumb_terminal_gets_plain_text(self):
        for term in ("dumb", ""):
            terminal = self.open(80, term)
            terminal.says("ended 0")
            terminal.shows(1, "PASSED")
            self.assertNotIn("\x1b", terminal.text)
            self.assertNotIn("\r", terminal.text.replace("\r\n", "\n"))


if __name__ == "__main__":
    unittest.main()
