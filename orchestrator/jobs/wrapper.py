# ruff: noqa: PTH109, PTH118, PTH119, SIM105 - imports cost more than they give
r"""What stands before every compiler of a build: the launcher, and behind ccache the gate.

`jobs.tools` writes scripts that run it in a bare Python. It runs twice a unit, thousands of times, so it
imports little.

The launcher tells the broker of the unit, and runs it through ccache. What is no compilation (`--version`,
`-E`, CMake's probes) becomes the compiler at once, and so does all of a build that knows no broker. The
gate comes after ccache (`CCACHE_PREFIX`, so only on a miss): it waits for a turn and runs the compiler. Each
runs its command in a process group of its own, and ends it when it is stopped or the broker is gone, since
then sparkbuild is dead. A broker that is there and silent is replaced by two locks.

Messages are lines of fields with a NUL between them. The launcher says `unit`, step, folder, process, kind
and the command; hears `go`, number, or `stop`, reason; says `group`, process group; `done`, exit code, CPU
seconds, wall seconds and the way (`cache`, `gate`, or `silent`: without a turn); and when it failed, hears
`fine`, or `again`, maybe with `plain`: without ccache. The gate says `turn`, number, process; hears `wait` (a
sign of life) and `go`; says `group`; may hear `end` (memory runs short); and says `ended`, exit code, CPU
seconds, largest process in bytes.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
else:
    import _signal as signal  # `signal` makes enums of all numbers, which takes five milliseconds

REFUSED = 76
"""Exit code of a unit that the broker stopped."""
LOCKS = 2
SLOT = ".slot%d"
SHORT_S = 3.0
"""How long the units wait that come after one that has waited in vain."""
SILENCE_S = 30.0
"""Without a sign of life for this long, units share two locks instead; SPARKBUILD_SILENCE_S."""
DEATHS = (
    (b"Killed signal terminated program", 137),
    (b"internal compiler error: Killed", 137),
    (b"Segmentation fault signal terminated program", 139),
    (b"internal compiler error: Segmentation fault", 139),
)
"""What gcc says of a part of it that died, and the exit code by which shells tell the same."""
_LINE = 4096
_LIMIT_S = 1.0
_GRACE_S = 0.5


class Line:
    """The connection to the broker, and the signals that come meanwhile."""

    def __init__(self, address: str, silence_s: float) -> None:
        """Connect; OSError when nobody is there."""
        self._silence_s = silence_s
        self._link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._link.settimeout(silence_s)  # a broker that is stopped takes what its buffers hold
        self._wake, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._got = b""
        self.gone = self.silent = self.stopped = False
        try:
            self._link.connect(address)
        except (TimeoutError, BlockingIOError):  # its queue is full
            self.silent = True
        else:
            self._poll.register(self._link.fileno(), select.POLLIN)

    def say(self, *fields: object) -> None:
        """Send one message."""
        if self.gone or self.silent:
            return
        text = "\0".join([str(field).replace("\n", " ") for field in fields]) + "\n"
        try:
            self._link.sendall(text.encode("utf-8", "surrogateescape"))
        except TimeoutError:
            self.silent = True
        except OSError:
            self._lose()

    def hear(self, limit_s: float) -> list[list[str]]:
        """Return the messages that come within a time; sooner when one comes, or a signal."""
        found: list[list[str]] = []
        for fd, _ in self._poll.poll(limit_s * 1000 + 1):
            if fd == self._wake:
                numbers = os.read(fd, 512)
                self.stopped = self.stopped or numbers.count(signal.SIGCHLD) < len(numbers)
                continue
            try:
                piece = self._link.recv(65536)
            except OSError:
                piece = b""
            if not piece:
                self._lose()
            *lines, self._got = (self._got + piece).split(b"\n")
            found += [line.decode("utf-8", "surrogateescape").split("\0") for line in lines]
        return found

    def answer(self, *words: str) -> list[str]:
        """Return the next message that begins with one of these words; none when none comes in time."""
        heard = time.monotonic()
        while not self.silent and not self.end():
            for message in self.hear(_LIMIT_S):
                if message[0] in words:
                    return message
                heard = time.monotonic()
            self.silent = time.monotonic() - heard >= self._silence_s
        return []

    def end(self) -> int:
        """Return the exit code with which to end now: we are stopped, or the broker is gone; else 0."""
        return 143 if self.stopped else 1 if self.gone else 0

    def _lose(self) -> None:
        if not self.gone:
            self._poll.unregister(self._link.fileno())
        self.gone = True


def run(
    line: Line, command: Sequence[str], environ: Mapping[str, str], *, grace_s: float, errors: int = 2
) -> tuple[int, float, int]:
    """Run a command in a process group of its own, of which nothing is left afterwards.

    It is ended when this process is stopped or told so, and when the broker is gone. Its standard error is
    the descriptor `errors`.

    Returns:
        Exit code, CPU seconds, and the largest process in bytes.
    """
    unset = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores these, and commands must not
    try:
        child = os.posix_spawnp(
            command[0],
            list(command),
            environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, errors, 2)],
            setpgroup=0,
            setsigdef=unset,
        )
    except OSError as error:
        sys.stderr.write(f"error: sparkbuild: {command[0]}: {error.strerror}\n")
        return 127, 0.0, 0
    line.say("group", child)
    begun = 0.0
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        told = any(message[0] == "end" for message in line.hear(0.05 if begun else _LIMIT_S))
        if begun:
            if time.monotonic() - begun > grace_s:
                kill(child, signal.SIGKILL)
        elif told or line.end():
            begun = time.monotonic()
            kill(child, signal.SIGTERM if grace_s else signal.SIGKILL)
    kill(child, signal.SIGKILL)  # its number is still its own: it is not yet reaped
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def kill(group: int, number: int) -> None:
    """Send a signal to a process group that may be gone."""
    try:
        os.killpg(group, number)
    except OSError:
        pass


def become(command: Sequence[str]) -> int:
    """Become the compiler; return an exit code when there is none."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))  # noqa: S606 - never a shell
    except OSError as error:
        sys.stderr.write(f"error: sparkbuild: {command[0]}: {error.strerror}\n")
    return 127


def line_to(address: str) -> Line | None:
    """Return a connection, or None, with a word about it, when sparkbuild is gone."""
    silence_s = float(os.environ.get("SPARKBUILD_SILENCE_S", SILENCE_S))
    if os.path.lexists(os.path.join(os.environ.get("SPARKBUILD_TOOLS", ""), SLOT % 0)):
        silence_s = min(silence_s, SHORT_S)  # somebody has waited in vain before
    try:
        return Line(address, silence_s)
    except OSError:
        sys.stderr.write("error: sparkbuild, which this build belongs to, is gone\n")
        return None


def cached(compiler: str) -> dict[str, str] | None:
    """Return ccache's variables for one unit; None when it must not be asked.

    It does not see what nvcc takes from variables (as of 4.14), so they join what stands for the compiler.
    Of a compiler that the run does not know nothing stands for it.
    """
    known = os.environ.get("SPARKBUILD_COMPILERS", "").split(":")
    if compiler not in known and os.path.realpath(compiler) not in map(os.path.realpath, known):
        return None
    check = os.environ.get("CCACHE_COMPILERCHECK", "")
    if os.path.basename(compiler).startswith("nvcc"):
        names = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")
        base = os.environ.get("CCACHE_BASEDIR")
        flags = "\n".join([os.environ.get(name, "") for name in names])
        check += "\n" + (flags.replace(base, "{base}") if base else flags)
    return {"CCACHE_COMPILERCHECK": check, "CCACHE_PREFIX": os.environ["SPARKBUILD_GATE"]}


def launch(command: Sequence[str]) -> int:
    """Compile through ccache and the gate, and return the exit code."""
    from orchestrator.jobs.command import effective, is_probe, kind, unwrapped

    compiler, arguments = unwrapped(command, os.environ.get("SPARKBUILD_TOOLS", ""))
    address = os.environ.get("SPARKBUILD_BROKER")
    # inside: nvcc found our script in its search for a host compiler; its unit has its turn already
    if not address or "SPARKBUILD_INSIDE" in os.environ:
        return become([compiler, *arguments])
    folder = os.getcwd()
    given = effective(compiler, arguments, os.environ)
    asked = kind(given)
    if asked == "other" or is_probe(folder, given):
        return become([compiler, *arguments])
    line = line_to(address)
    if line is None:
        return 1
    line.say("unit", os.environ.get("SPARKBUILD_STEP", ""), folder, os.getpid(), asked, compiler, *given)
    answer = line.answer("go", "stop")
    if answer[:1] == ["stop"]:
        sys.stderr.write(f"error: sparkbuild: {answer[1]}\n")
        return REFUSED
    return launched(
        line, [compiler, *arguments], number=answer[1] if answer else "", cache=asked == "compile"
    )


def launched(line: Line, command: Sequence[str], *, number: str, cache: bool) -> int:
    """Run a compiler behind ccache and the gate, as often as the broker says, and return the exit code.

    Args:
        line: the connection.
        command: the compiler's.
        number: the unit's; empty when the broker was silent.
        cache: whether ccache knows such a command.
    """
    began = time.monotonic()
    environ = os.environ | {"SPARKBUILD_UNIT": number}
    before, way = environ["SPARKBUILD_GATE"], "gate" if number else "silent"
    more = cached(command[0]) if cache and "SPARKBUILD_CCACHE" in environ else None
    if more is not None:
        before, way = environ["SPARKBUILD_CCACHE"], "cache" if number else "silent"
        environ |= more
    line.silent = False  # it may be back
    while not line.end():
        code, cpu_s, _ = run(line, [before, *command], environ, grace_s=_GRACE_S)
        if line.end():
            break
        line.say("done", code, cpu_s, time.monotonic() - began, way)
        answer = line.answer("again", "fine") if code and number else []
        if answer[:1] != ["again"]:
            return code
        if "plain" in answer:
            before, way = environ["SPARKBUILD_GATE"], "gate"
    return line.end()


def gate(command: Sequence[str]) -> int:
    """Compile when it is our turn, and return the exit code."""
    address, unit = os.environ.get("SPARKBUILD_BROKER"), os.environ.get("SPARKBUILD_UNIT")
    if not address or unit is None:
        return become(command)
    line = line_to(address)
    if line is None:
        return 1
    if unit:
        line.say("turn", unit, os.getpid())
        line.answer("go")
    if not unit or line.silent:
        locked(line, os.environ["SPARKBUILD_TOOLS"])
    if line.end():
        return line.end()
    environ = dict(os.environ)
    environ["SPARKBUILD_INSIDE"] = "1"
    line.silent = False  # it may be back
    errors = os.memfd_create("stderr")
    code, cpu_s, largest = run(line, command, environ, grace_s=0.0, errors=errors)
    died = hand_on(errors)
    if not line.end():
        line.say("ended", (died or code) if code else 0, cpu_s, largest)
    return line.end() or code


def hand_on(errors: int) -> int:
    """Write what a compiler has said to standard error; return how a part of it died, 0 when none did.

    gcc itself ends with 1 when its cc1 was killed, and nvcc hands that on.
    """
    end = b""
    os.lseek(errors, 0, os.SEEK_SET)
    try:
        while piece := os.read(errors, 1 << 16):
            end = end[-_LINE:] + piece
            while piece:
                piece = piece[os.write(2, piece) :]
    except OSError:  # nobody listens
        pass
    return next((code for text, code in DEATHS if text in end), 0)


def locked(line: Line, folder: str) -> None:
    """Wait for one of the two locks that take the broker's place; it is ours until we end."""
    import fcntl

    # ccache keeps what compilers say, and says it again with each hit; not so on this descriptor
    told = int(os.environ.get("UNCACHED_ERR_FD", "2"))
    os.write(told, b"warning: sparkbuild does not answer; at most two units run at a time\n")
    files = [os.open(os.path.join(folder, SLOT % n), os.O_RDWR | os.O_CREAT, 0o600) for n in range(LOCKS)]
    while not line.end():
        for file in files:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            return
        line.hear(0.1)


def main(role: str, command: Sequence[str]) -> None:
    """Launch a command, or be its gate, and end with its exit code."""
    code = launch(command) if role == "launch" else gate(command)
    sys.stderr.flush()
    os._exit(code)  # taking Python down takes a millisecond
