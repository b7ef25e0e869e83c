# SPDX-License-Identifier: Apache-2.0
#
# A terminal with a job-control shell of one job in it, for the tests beside it: the job is in the
# foreground, can be stopped and continued, and sees a window size. Start reading at Terminal.
import fcntl
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import termios
import time

# What a shell does for a job: terminal, process group, foreground; says how it stops and ends.
SHELL = """
import fcntl, os, signal, socket, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
control = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
control.send(b"pid %d" % job)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    control.send(b"stopped")
    assert control.recv(100) == b"fg"
    os.killpg(job, signal.SIGCONT)
control.send(b"ended %d" % os.waitstatus_to_exitcode(status))
"""


class Terminal:
    def __init__(self, arguments, cwd, env, columns=80):
        self.master, slave = pty.openpty()
        self.resize(columns)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.shell = subprocess.Popen(
            [sys.executable, "-c", SHELL, str(theirs.fileno()), *map(str, arguments)], cwd=cwd,
            env=env, stdin=slave, stdout=slave, stderr=slave, pass_fds=[theirs.fileno()],
            start_new_session=True)
        os.close(slave)
        theirs.close()
        self.text = ""  # all that was drawn
        self.pid = int(self.says("pid").split()[1])

    def resize(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def press(self, key):
        """A key with Ctrl: "c", "z" or "\\"."""
        os.write(self.master, bytes([ord(key.upper()) & 0x1f]))

    def resume(self):
        self.control.send(b"fg")

    def _watch(self, done, limit):
        """Draws what comes until `done`, or the other side is gone."""
        deadline = time.monotonic() + limit
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"the terminal shows: {self.text!r}")
            if select.select([self.master], [], [], min(left, 0.02))[0]:
                try:
                    self.text += os.read(self.master, 65536).decode()
                except OSError:  # nobody has the terminal open any more
                    time.sleep(0.02)

    def says(self, word, limit=120):
        """Waits for the shell's message that begins so."""
        heard = []

        def done():
            if select.select([self.control], [], [], 0)[0]:
                heard.append(self.control.recv(100).decode())
                assert heard[0].startswith(word), f"{heard[0]!r} came, {word!r} was expected: " \
                    f"{self.text!r}"
            return heard
        self._watch(done, limit)
        return heard[0]

    def shows(self, count, text, limit=120):
        """Waits until the text was drawn so many times."""
        self._watch(lambda: self.text.count(text) >= count, limit)

    def end(self):
        """Closes the terminal's window."""
        self.shell.kill()
        self.shell.wait()
        os.close(self.master)
        self.control.close()
