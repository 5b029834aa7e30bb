# ruff: noqa: PTH123, PTH208, S606 - pathlib takes longer to import than all the rest
r"""The root of one supervised command: a small script that outlives nothing and lets nothing outlive it.

Run by `build.supervisor` as `python -I -S /proc/self/fd/SCRIPT CONTROL_FD PARENT_PID`; the log is its stdout.
It imports little (10 ms to start), makes itself a child subreaper, so that whatever detaches itself from the
command becomes its child, and kills all of them when the command ends, when it is told to, or when the
process that started it is gone. The control socket's end-of-file says that; PR_SET_PDEATHSIG only wakes it
to look, because that signal also comes when merely the *thread* that started it ends (prctl(2)).

On the socket: in, a request (`LENGTH\n`, then NUL-separated: argument count, arguments, working folder,
`NAME=value`...), later `T` (stop) or `K` (stop without grace); out, one JSON line each: `started` or
`failed`, then `end`.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TERM_GRACE_S = 0.5
"""From SIGTERM to SIGKILL."""
LINGER_S = 0.2
"""How long processes that the command left behind may take to end by themselves."""
LIMIT_S = 10.0
"""Killing is given up after this: only processes of another user or in a dead file system get there."""
POLL_MS = 10
NAME_LENGTH = 250


def set_option(option: int, value: int) -> None:
    """Set one option of this process (man 2 prctl)."""
    ctypes.CDLL(None).prctl(
        option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    )


def read_request(control: int) -> tuple[list[bytes], bytes, dict[bytes, bytes]] | None:
    """Return arguments, working folder and environment; None when the other side is gone or wants no more."""
    got = b""
    while b"\n" not in got:
        piece = os.read(control, 65536)
        if not piece:
            return None
        got += piece
    head, _, body = got.partition(b"\n")
    while len(body) < int(head):
        piece = os.read(control, 65536)
        if not piece:
            return None
        body += piece
    if len(body) > int(head):  # the word to stop came on its heels
        return None
    fields = body.split(b"\0")
    count = int(fields[0])
    environment = dict(field.split(b"=", 1) for field in fields[count + 2 :])
    return fields[1 : count + 1], fields[count + 1], environment


def descendants(root: int) -> list[int]:
    """Return the living processes below `root`, parents first, read from /proc."""
    below: dict[int, list[int]] = {}
    dead = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The name, in parentheses, may hold anything; what follows its last `)` is regular.
                state, parent = file.read().rpartition(b")")[2].split(None, 2)[:2]
        except OSError:
            continue
        below.setdefault(int(parent), []).append(int(entry))
        if state in b"ZX":
            dead.add(int(entry))
    found = [root]
    for pid in found:
        found.extend(below.get(pid, ()))
    return [pid for pid in found[1:] if pid not in dead]


def name_of(pid: int) -> str:
    """Return the command line of `pid` in printable ASCII, shortened."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            raw = file.read(NAME_LENGTH * 4)
    except OSError:
        return str(pid)
    text = raw.replace(b"\0", b" ").decode("ascii", "replace").strip()
    return "".join(c if " " <= c <= "~" and c not in '"\\' else "?" for c in text)[:NAME_LENGTH] or str(pid)


def send_signal(pids: list[int], number: int) -> None:
    """Send a signal to each; one that is gone, or of another user, is passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


class Guardian:
    """One command, and all that comes from it."""

    def __init__(self, control: int, parent: int) -> None:
        self.control = control
        self.parent = parent
        self.root = 0
        self.status: int | None = None
        self.utime = self.stime = 0.0
        self.peak_kib = 0
        self.stopped = self.hasty = False
        self.wake, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.listening = True
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)

    def say(self, line: str) -> None:
        """Tell the other side, if it is still there."""
        try:
            os.write(self.control, line.encode("ascii") + b"\n")
        except OSError:
            self.listening = False

    def spawn(self, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes]) -> bool:
        """Start the command in a session of its own; say how that went, and return whether it did."""
        reader, writer = os.pipe()
        me = os.getpid()
        self.root = os.fork()
        if not self.root:
            execute(argv, cwd, env, guardian=me, report=writer)
        os.close(writer)
        problem = os.read(reader, 64)
        os.close(reader)
        if problem:
            what, number = problem.split()
            self.say(f'{{"event":"failed","what":"{what.decode()}","errno":{int(number)}}}')
            return False
        self.say(f'{{"event":"started","pid":{self.root}}}')
        return True

    def reap(self) -> bool:
        """Collect what has ended; return whether any child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            # Each child's figures include those of its own children that it waited for.
            self.utime += usage.ru_utime
            self.stime += usage.ru_stime
            self.peak_kib = max(self.peak_kib, usage.ru_maxrss)
            if pid == self.root:
                self.status = os.waitstatus_to_exitcode(status)

    def listen(self, timeout_ms: int) -> None:
        """Wait for a signal or a word from the other side, at most `timeout_ms`, and note it."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if self.listening:
            poll.register(self.control, select.POLLIN)
        for fd, _ in poll.poll(timeout_ms):
            try:
                data = os.read(fd, 4096)
            except OSError:
                data = b""
            if fd == self.control:
                self.stopped = True
                self.hasty = self.hasty or b"K" in data
                self.listening = bool(data)
            elif any(number in data for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
                self.stopped = True
        self.stopped = self.stopped or os.getppid() != self.parent

    def clear(self) -> None:
        """Kill all descendants: SIGTERM, a grace, then SIGKILL until none is left."""
        begin = time.monotonic()
        send_signal(descendants(os.getpid()), signal.SIGTERM)
        while self.reap() and not self.hasty and time.monotonic() - begin < TERM_GRACE_S:
            self.listen(POLL_MS)
        # A child of ours exists as long as any descendant does: orphans come to us.
        while self.reap() and time.monotonic() - begin < LIMIT_S:
            send_signal(descendants(os.getpid()), signal.SIGKILL)
            self.listen(POLL_MS)

    def watch(self) -> None:
        """Stay until the command has ended and nothing of it is left; report its end."""
        left = self.reap()
        while self.status is None and not self.stopped:
            self.listen(1000)  # a lost wake-up costs a second, not the run
            left = self.reap()
        begin = time.monotonic()
        while left and not self.stopped and time.monotonic() - begin < LINGER_S:
            self.listen(POLL_MS)
            left = self.reap()
        leftovers = ""
        if left:
            if not self.stopped:
                leftovers = ",".join(f'"{name_of(pid)}"' for pid in descendants(os.getpid()))
            self.clear()
        status = "null" if self.status is None else self.status
        self.say(
            f'{{"event":"end","returncode":{status},"utime":{self.utime:.6f},"stime":{self.stime:.6f},'
            f'"peak_bytes":{self.peak_kib * 1024},"stopped":{"true" if self.stopped else "false"},'
            f'"leftovers":[{leftovers}]}}'
        )


def execute(argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], *, guardian: int, report: int) -> None:
    """In the forked child: become the command, or say why not and exit 127."""
    what = b"cwd"
    try:
        os.setsid()
        set_option(PR_SET_PDEATHSIG, signal.SIGKILL)  # should the guardian itself be killed
        if os.getppid() != guardian:
            os._exit(127)
        for number in (
            signal.SIGPIPE,
            signal.SIGXFSZ,
            signal.SIGINT,
            signal.SIGQUIT,
            signal.SIGHUP,
            signal.SIGTERM,
        ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(0o022)  # file modes end up in wheels
        os.chdir(cwd)
        what = b"exec"
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(report, b"%s %d" % (what, error.errno or 0))
    os._exit(127)


def main(control: int, parent: int) -> None:
    """Guard one command."""
    os.set_inheritable(control, False)  # noqa: FBT003 - positional only
    set_option(PR_SET_PDEATHSIG, signal.SIGUSR1)
    set_option(PR_SET_CHILD_SUBREAPER, 1)
    guardian = Guardian(control, parent)
    request = read_request(control)
    if request is None or os.getppid() != parent:
        guardian.stopped = True
        guardian.watch()
    elif guardian.spawn(*request):
        guardian.watch()


if __name__ == "__main__":
    os.close(int(sys.argv[0].rpartition("/")[2]))  # the script itself, see `supervisor`
    main(int(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)
