"""Becomes a command in a network namespace of its own, where there is nothing but loopback.

A script of its own, started by path (`build.isolation`): `nonet.py COMMAND…`. The command keeps this process,
its user and its open files; sockets that are files, such as the gate's, go on working. Where the system does
not allow it, it ends with `REFUSED` and the reason, and the command never runs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

REFUSED = 125
NOT_FOUND = 127
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
SIGKILL = 9
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
IFREQ = "16sh22x"


def isolate() -> None:
    """Leave the network behind; OSError where the system refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) == 0:  # allowed to root alone
        return
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # The same user and group inside; without `deny` only root may write the second map.
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 (starts in 20 ms)
            file.write(text)


def raise_loopback() -> None:
    """Bring loopback up, which tests and compiler servers talk over; without it they fail, and say so."""
    import fcntl
    import socket
    import struct

    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, SIOCGIFFLAGS, struct.pack(IFREQ, b"lo", 0))
        flags = struct.unpack(IFREQ, answer)[1]
        fcntl.ioctl(asked, SIOCSIFFLAGS, struct.pack(IFREQ, b"lo", flags | IFF_UP))


def main(argv: list[str]) -> int:
    """Isolate and become `argv`; return an exit code when that does not go."""
    parent = os.getppid()
    try:
        isolate()
    except OSError as error:
        sys.stderr.write(f"no network namespace: {error.strerror}\n")
        return REFUSED
    # New credentials may have cleared what the guardian asked for: to die with it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return REFUSED
    raise_loopback()
    try:
        os.execvp(argv[0], argv)  # noqa: S606 (that is what it is for)
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        return NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
