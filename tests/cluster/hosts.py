# SPDX-License-Identifier: Apache-2.0
#
# Hosts: a few machines on a switch, made of Linux namespaces, for tests and benchmarks of ranks on
# several machines. Each host has network, host name and mounts of its own; links are veth pairs to a
# bridge that lies in a namespace too, shaped with tc, or a Wire. Nothing of it has a name outside: it
# lives as long as the processes in it, and those end with this one, however that ends. Needs root,
# iproute2 and util-linux. Start reading at Hosts.start().
#
# As a program: hosts.py [--hosts N] [--rate 1gbit] [--delay 100us] [--pin] -- COMMAND...
# runs a command on the first host, with $TANDEM_MPIRUN set to an mpirun that reaches them all.
import argparse
import ctypes
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NETWORK = "10.213.77"  # inside the namespaces only
TOOLS = ["ip", "tc", "unshare", "nsenter", "mount", "taskset"]
HERE = pathlib.Path(__file__).resolve().parent


def missing():
    """Why there can be no hosts here; empty when there can."""
    if os.geteuid() != 0:
        return "not root: network namespaces cannot be made"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"missing: {' '.join(absent)} (packages iproute2, util-linux)"
    return tried("ip link add veth9 type veth peer name veth8 && ip link add br9 type bridge && "
                 "tc qdisc add dev veth9 root handle 1: tbf rate 1gbit burst 64kb latency 9ms")


def missing_delay():
    """Why tc cannot delay anything here; empty when it can."""
    return tried("tc qdisc add dev lo root netem delay 1ms")


def missing_wire():
    """Why there can be no Wire; empty when there can."""
    return "" if os.path.exists("/dev/net/tun") else "no /dev/net/tun"


def tried(script):
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"this kernel cannot: {done.stderr.strip()}"


def milliseconds(text):
    """Of a time as tc spells it."""
    for unit, scale in (("us", 1e-3), ("ms", 1.0), ("s", 1e3)):
        if text.endswith(unit):
            return float(text[:-len(unit)]) * scale
    raise ValueError(f"'{text}' is no time: give it as 100us, 2ms or 1s")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Namespace:
    """A process that holds namespaces."""

    def __init__(self, name, folder):
        self.name = name
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c",
             f"hostname {name}; ip link set lo up; mount --bind {folder}/hosts /etc/hosts; "
             "mount -t tmpfs tmpfs /dev/shm; echo ready; exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent, start_new_session=True)
        if self.holder.stdout.readline().strip() != "ready":
            raise RuntimeError(f"cannot make the namespaces of {name}")
        self.pid = self.holder.pid
        self.net = os.readlink(f"/proc/{self.pid}/ns/net")

    def enter(self, cpu=None):
        command = ["nsenter", "-t", str(self.pid), "--net", "--uts", "--mount", f"--wd={os.getcwd()}"]
        return command + ([] if cpu is None else ["taskset", "-c", str(cpu)])

    def run(self, *command):
        done = subprocess.run([*self.enter(), *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def processes(self):
        """Pid and words of what runs here, the holder apart."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "ns/net") != self.net or int(entry.name) == self.pid:
                    continue
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z":
                found.append((int(entry.name), [word.decode() for word in words if word]))
        return found

    def end(self):
        for pid, _ in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Hosts:
    """`count` hosts whose links have `rate` (None: as fast as it goes) and the one-way `delay`, both
    as tc spells them. `wire`: (delay ms, jitter ms, share of overtaken frames) joins them by a Wire
    instead. `pin`: host i on core i modulo cores."""

    def __init__(self, count=2, rate=None, delay=None, wire=None, pin=False):
        self.count, self.rate, self.delay, self.wire, self.pin = count, rate, delay, wire, pin
        self.hosts, self.switch, self.cable, self.folder = [], None, None, None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def start(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem-cluster-"))
        unique = self.folder.name.rpartition("-")[2].replace("_", "x").lower()
        names = [f"t{unique}{i}" for i in range(self.count)]
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{NETWORK}.{i + 1} {name}\n" for i, name in enumerate(names)))
        for name in names:
            self.hosts.append(Namespace(name, self.folder))
        if self.wire is None:
            self.plug_in_switch()
        else:
            self.plug_in_wire()
        for i, host in enumerate(self.hosts):
            host.run("ip", "address", "add", f"{NETWORK}.{i + 1}/24", "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "up")
            self.shape(host)
        self.write_agent()

    def plug_in_wire(self):
        pids = [str(host.pid) for host in self.hosts]
        self.cable = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "wire.py"), *map(str, self.wire), *pids],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        if self.cable.stdout.readline().strip() != "ready":
            raise RuntimeError("the wire does not hold")

    def plug_in_switch(self):
        self.switch = Namespace("switch", self.folder)
        self.switch.run("ip", "link", "add", "br0", "type", "bridge")
        self.switch.run("ip", "link", "set", "br0", "up")
        for i, host in enumerate(self.hosts):
            self.switch.run("ip", "link", "add", f"p{i}", "type", "veth", "peer", "name", f"q{i}")
            self.switch.run("ip", "link", "set", f"q{i}", "netns", str(host.pid))
            self.switch.run("ip", "link", "set", f"p{i}", "master", "br0", "up")
            host.run("ip", "link", "set", f"q{i}", "name", "eth0")

    def shape(self, host):
        parent = ["root"]
        if self.rate:
            host.run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "tbf", "rate",
                     self.rate, "burst", "128kb", "latency", "50ms")
            parent = ["parent", "1:1"]
        if self.delay:
            host.run("tc", "qdisc", "add", "dev", "eth0", *parent, "netem", "limit", "100000",
                     "delay", self.delay)

    def cpu(self, i):
        cores = sorted(os.sched_getaffinity(0))
        return cores[i % len(cores)] if self.pin else None

    def write_agent(self):
        """What mpirun calls instead of ssh: AGENT HOST COMMAND..."""
        cases = "".join(f"  {host.name}) enter='{' '.join(host.enter(self.cpu(i)))}' ;;\n"
                        for i, host in enumerate(self.hosts))
        agent = self.folder / "agent"
        agent.write_text("#!/bin/sh\ncase $1 in\n" + cases + "  *) echo \"no host $1\" >&2; exit 1 ;;"
                         "\nesac\nshift\nexec $enter sh -c \"$*\"\n")
        agent.chmod(0o755)

    def mpirun(self, per_host, *command, environment=()):
        """The command line, for the first host, that runs `per_host` ranks on each."""
        hosts = ",".join(f"{host.name}:{per_host}" for host in self.hosts)
        mca = {"plm_rsh_agent": f"{self.folder}/agent", "btl": "tcp,self", "pml": "ob1",
               "btl_tcp_if_include": f"{NETWORK}.0/24", "oob_tcp_if_include": f"{NETWORK}.0/24",
               "orte_tmpdir_base": str(self.folder)}
        if per_host > 1 or not self.pin:
            # Ranks share cores, which mpirun cannot know: MPI's own waits must give way.
            mca["mpi_yield_when_idle"] = "1"
        line = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--map-by", "node", "--host",
                hosts, "-n", str(per_host * self.count)]
        for key, value in mca.items():
            line += ["--mca", key, value]
        for entry in environment:
            line += ["-x", entry]
        return [*line, *map(str, command)]

    def popen(self, command, **options):
        """Starts a command on the first host."""
        return subprocess.Popen([*self.hosts[0].enter(self.cpu(0)), *command],
                                stdin=subprocess.DEVNULL, text=True, start_new_session=True,
                                preexec_fn=die_with_parent, **options)

    def processes(self):
        """Host number, pid and words of every process on the hosts, the holders apart."""
        return [(i, pid, words) for i, host in enumerate(self.hosts)
                for pid, words in host.processes()]

    def sent_bytes(self):
        """What each host has sent over its link so far."""
        return [json.loads(host.run("ip", "-s", "-j", "link", "show", "eth0"))[0]["stats64"]["tx"]
                ["bytes"] for host in self.hosts]

    def wire_seconds(self):
        """CPU time that the wire has taken so far."""
        ticks = pathlib.Path(f"/proc/{self.cable.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        for namespace in [*self.hosts, self.switch]:
            if namespace is not None:
                namespace.end()
        if self.folder is not None:
            deadline = time.monotonic() + 5
            while self.folder.exists() and time.monotonic() < deadline:
                shutil.rmtree(self.folder, ignore_errors=True)
        if self.cable is not None:
            self.cable.kill()
            self.cable.wait()
            self.cable.stdout.close()
        self.hosts, self.switch, self.cable, self.folder = [], None, None, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--per-host", type=int, default=1, help="ranks on each host")
    parser.add_argument("--rate")
    parser.add_argument("--delay", help="of each link, one way: 100us")
    parser.add_argument("--pin", action="store_true", help="one core for each host")
    parser.add_argument("command", nargs="+")
    o = parser.parse_args()
    reason = missing()
    if reason:
        sys.exit(f"hosts.py: {reason}")
    wire = None
    if o.delay and missing_delay():
        # Say it: what the wire takes of the cores, the ranks do not have.
        print("hosts.py: no netem in this kernel: a process delays the frames", file=sys.stderr)
        wire, o.delay = (milliseconds(o.delay), 0, 0), None
    with Hosts(o.hosts, o.rate, o.delay, wire, o.pin) as hosts:
        env = dict(os.environ, TANDEM_MPIRUN=shlex.join(hosts.mpirun(o.per_host)))
        started = hosts.popen(o.command, env=env)
        began = time.monotonic()
        try:
            return started.wait()
        finally:
            started.kill()
            if wire:
                share = hosts.wire_seconds() / (time.monotonic() - began)
                print(f"hosts.py: that took {share:.0%} of a core on average", file=sys.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
