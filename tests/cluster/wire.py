# SPDX-License-Identifier: Apache-2.0
#
# Wire: a long or a bad network between hosts, in user space, for kernels without netem: every frame
# is held back by a delay, a random jitter, and now and then so long that others overtake it. Each
# host has a TAP device whose other end this process holds. A wire with nothing but a delay carries
# what a host would leave its network card to cut into frames, in one piece: then 1 Gbit/s in each
# direction takes a quarter of a core. Others are for tests of what arrives, not of speed.
#
#   wire.py DELAY_MS JITTER_MS REORDER_SHARE PID...    one PID per host; serves until it is killed
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
CHECKSUMS_AND_SEGMENTS = 7  # TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6
VNET_HEADER = 10  # bytes before a frame that may be in one piece
PR_SET_TIMERSLACK = 29
MOST_BYTES = 1 << 17  # of a frame, or of one in one piece
CLONE_NEWNET = 0x40000000
OVERTAKEN_MS = 3  # how much longer a frame takes that others overtake


def tap_in(pid, whole):
    """The near end of a new TAP device "eth0" in the network namespace of a process."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(there, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = IFF_TAP | IFF_NO_PI | (IFF_VNET_HDR if whole else 0)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"eth0", flags))
    if whole:
        fcntl.ioctl(tap, TUNSETOFFLOAD, CHECKSUMS_AND_SEGMENTS)
    libc.setns(here, CLONE_NEWNET)
    os.close(here)
    os.close(there)
    return tap


def act_as_hardware():
    """Frames wait for nobody, as far as the kernel allows."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)  # ns
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass


def main():
    delay, jitter, reorder = (float(word) for word in sys.argv[1:4])
    whole = jitter == 0 and reorder == 0
    to = VNET_HEADER if whole else 0  # where a frame's addresses begin
    taps = [tap_in(pid, whole) for pid in sys.argv[4:]]
    act_as_hardware()
    chance = random.Random(7)
    known, under_way, spare, number = {}, [], [], 0
    print("ready", flush=True)
    while True:
        timeout = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for tap in select.select(taps, [], [], timeout)[0]:
            for _ in range(64):
                room = spare.pop() if spare else bytearray(MOST_BYTES)
                try:
                    frame = memoryview(room)[:os.readv(tap, [room])]
                except BlockingIOError:
                    spare.append(room)
                    break
                known[bytes(frame[to + 6:to + 12])] = tap
                late = delay + chance.random() * jitter
                late += OVERTAKEN_MS if chance.random() < reorder else 0
                number += 1
                heapq.heappush(under_way, (time.monotonic() + late / 1e3, number, tap, frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, source, frame = heapq.heappop(under_way)
            target = known.get(bytes(frame[to:to + 6]))
            for tap in taps if target is None else [target]:
                if tap != source:
                    try:
                        os.write(tap, frame)
                    except OSError:
                        pass  # as a full queue would
            spare.append(frame.obj)


if __name__ == "__main__":
    main()
