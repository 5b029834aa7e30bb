"""The broker: a thread of the run that hands out turns to units, watches memory, and keeps the records.

Launchers and gates speak to it over a socket; `jobs.wrapper` has the messages. It decides by the pure
functions of `jobs.budget`.
"""

from __future__ import annotations

import selectors
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from orchestrator.jobs import memory
from orchestrator.jobs.budget import Room, end_now, start_now
from orchestrator.jobs.history import Cost
from orchestrator.jobs.images import images
from orchestrator.jobs.link import PREFIX, SOCKET, Link, sweep
from orchestrator.jobs.pick import LAST_WORD_S, TURNED_AWAY
from orchestrator.jobs.turns import StepJobs, Turn
from orchestrator.jobs.units import Kind, Record, Unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.jobs.pick import Pick
    from orchestrator.jobs.units import How

TICK_S = 0.5
"""How often memory is measured while units run; less often where that takes long."""
_SHARE = 50
"""Measuring takes at most one in so many seconds of the thread's time."""
ALIVE_S = 10.0
"""How often a gate that waits gets a sign of life."""
SAVE_S = 60.0
"""How often what was learned is written down, in case sparkbuild is killed."""
STALLED = 40.0
"""Percent of time that somebody waits for memory, above which nothing new starts."""
_PATH_LIMIT = 80
"""Of the folder for the socket, whose whole path may have 107 bytes."""


@dataclass(frozen=True, slots=True)
class Use:
    """What all units take at one moment, and what they may take, in bytes."""

    units: int
    slots: int
    used: int
    budget: int


class Broker:
    """The thread. Use it as a context manager; what went wrong in the thread is raised at its end."""

    def __init__(
        self,
        *,
        slots: int,
        reserve: int,
        budget: int | None = None,
        warn: Callable[[str, str], None] = lambda _step, _text: None,
        watch: Callable[[Use], None] = lambda _use: None,
    ) -> None:
        """Say what there is.

        Args:
            slots: units that may run at a time.
            reserve: bytes that are left to everything else.
            budget: bytes that all units together may take; None: whatever is available.
            warn: called with a step and a text when something is out of the ordinary.
            watch: called with what is in use, each time it was measured; in the broker's thread.
        """
        self._slots, self._reserve, self._budget = slots, reserve, budget
        self._warn, self._watch = warn, watch
        self._steps: dict[str, StepJobs] = {}
        self._turns: dict[int, Turn] = {}
        self._number = 0
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        usual = tempfile.gettempdir()
        temporary = usual if len(usual) < _PATH_LIMIT else "/var/tmp"  # noqa: S108 - a fresh folder in it
        sweep(Path(temporary))
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, dir=temporary)
        self.address = f"{self._folder.name}/{SOCKET}"
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.address)
        self._server.listen(1024)
        self._server.settimeout(0)
        self._stop, self._wake = socket.socketpair()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)
        self._failure: BaseException | None = None
        self._measure_at = self._breathe_at = 0.0
        self._save_at = time.monotonic() + SAVE_S
        self.peak = 0
        """The most that all units together have taken, in bytes."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._drain()
        self._stop.close()
        self._thread.join()
        for step in self._steps.values():
            step.history.save()
        self._folder.cleanup()
        if self._failure is not None:
            raise self._failure

    def open(self, step: StepJobs) -> None:
        """Let the units of a step in."""
        with self._lock:
            self._steps[step.name] = step

    def close(self, step: StepJobs) -> None:
        """Take the last words of its units, turn away others from now on, and keep what was learned."""
        self._drain()
        with self._lock:
            self._steps.pop(step.name, None)
            step.history.save()

    def _drain(self) -> None:
        """Read what has been sent until now: a launcher says how its unit ended, and is gone at once."""
        with self._lock:
            while self._accept():
                pass
            for key in list((self._selector.get_map() or {}).values()):
                while isinstance(key.data, Link) and key.data.sock.fileno() >= 0 and key.data.has_more():
                    self._serve(key.data)

    @property
    def running(self) -> tuple[tuple[str, str, int], ...]:
        """Step, unit and bytes of each unit that runs now."""
        with self._lock:
            turns = [turn for turn in self._turns.values() if turn.state == "running"]
            return tuple((turn.step.name, turn.unit.name, turn.used) for turn in turns)

    def _run(self) -> None:
        try:
            while self._served():
                pass
        except BaseException as error:  # noqa: BLE001 - raised where the run sees it, in __exit__
            self._failure = error
        finally:  # closed sockets end what still runs
            for key in list(self._selector.get_map().values()):
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()
            self._selector.close()

    def _served(self) -> bool:
        """Serve what has come; return whether to go on."""
        busy = any(turn.state != "launched" for turn in self._turns.values())
        for key, _ in self._selector.select(TICK_S if busy else None):
            if key.fileobj is self._wake:
                return False
            with self._lock:
                if key.fileobj is self._server:
                    self._accept()
                elif key.data.sock.fileno() >= 0 and key.data.has_more():  # `_drain` may have been here
                    self._serve(key.data)
        with self._lock:
            self._tick(time.monotonic())
        return True

    def _accept(self) -> bool:
        """Take a connection that waits; return whether there was one."""
        try:
            sock, _ = self._server.accept()
        except OSError:
            return False
        sock.settimeout(5)
        self._selector.register(sock, selectors.EVENT_READ, Link(sock))
        return True

    def _serve(self, link: Link) -> None:
        messages = link.messages()
        try:
            for word, *fields in messages or ():
                self._understand(link, word, fields)
        except (ValueError, IndexError):  # it is none of ours
            messages = None
        if messages is None:
            self._selector.unregister(link.sock)
            link.sock.close()
            self._lost(link)

    def _understand(self, link: Link, word: str, fields: list[str]) -> None:
        turn = self._turns.get(link.number)
        if word == "unit":
            self._launched(link, fields)
        elif word == "turn":
            self._wants(link, int(fields[0]), int(fields[1]))
        elif word == "group":
            link.group = int(fields[0])
        elif word == "ended" and turn is not None:
            link.group = 0
            turn.ran(int(fields[0]), float(fields[1]), int(fields[2]))
        elif word == "done" and turn is not None:
            link.group = 0
            self._done(link, turn, fields)

    def _launched(self, link: Link, fields: list[str]) -> None:
        name, folder, pid, asked, compiler, *arguments = fields
        kind: Kind = "link" if asked == "link" else "compile"
        step = self._steps.get(name)
        if step is None or step.over:
            link.say("stop", f"{name!r} is not being built" if step is None else TURNED_AWAY)
            return
        self._number += 1
        unit = Unit(self._number, name, folder, kind, compiler, tuple(arguments))
        made = images(arguments) if unit.is_cuda else ()
        reason = step.judge(unit, made)
        if reason is not None:
            self._record(step, Record(unit, "refused", images=made, why=reason))
            link.say("stop", reason)
            return
        link.number, link.pid = unit.number, int(pid)
        turn = Turn(unit, step, made, step.history.expected(unit, made), launcher=link)
        self._turns[unit.number] = turn
        if step.pick is not None and not step.pick.lets(unit, made, time.monotonic()):
            turn.state = "parked"
            link.say("wait")
            return
        self._go(turn)

    def _go(self, turn: Turn) -> None:
        turn.state = "launched"
        turn.step.enter(turn.unit)
        if turn.launcher is not None:
            turn.launcher.say("go", turn.unit.number)

    def _wants(self, link: Link, number: int, pid: int) -> None:
        turn = self._turns.get(number)
        if turn is None:
            raise ValueError(number)  # its launcher is gone
        link.number, link.pid, link.is_gate = number, pid, True
        turn.wait(link, time.monotonic())
        link.say("wait")

    def _done(self, link: Link, turn: Turn, fields: list[str]) -> None:
        while turn.gate is not None and turn.gate.has_more():  # its last word, on another connection
            self._serve(turn.gate)
        code, cpu_s, wall_s, way = int(fields[0]), float(fields[1]), float(fields[2]), fields[3]
        is_open = self._steps.get(turn.step.name) is turn.step and not turn.step.over
        again = turn.again(code, cache=way == "cache") if is_open and way != "silent" else None
        if again:
            self._warn(turn.unit.step, again)
            link.say("again", *(["plain"] if turn.plain else []))
            return
        link.say("fine")
        link.number = 0
        del self._turns[turn.unit.number]
        turn.step.leave(turn.unit)
        if not code and turn.tries:
            turn.step.history.learn(turn.unit, turn.images, Cost(turn.peak, turn.cpu_s))
        how: How = "failed" if code else "hit" if way == "cache" and not turn.tries else "ran"
        self._record(turn.step, turn.record(how, code, cpu_s, wall_s))

    def _record(self, step: StepJobs, record: Record) -> None:
        if step.over:  # it was ended by us
            return
        if step.pick is not None:
            step.pick.ended(record, time.monotonic())
        step.records.append(record)
        step.listen(record)

    def _lost(self, link: Link) -> None:
        """End what a launcher or gate has left behind that was killed."""
        turn = self._turns.get(link.number)
        if turn is not None and link.is_gate:
            turn.lost(link)
        elif turn is not None:
            if turn.gate is not None:
                turn.gate.kill()
            del self._turns[link.number]
            if turn.state != "parked":
                self._record(turn.step, turn.record("lost"))
        link.kill()

    def _tick(self, now: float) -> None:
        running = [turn for turn in self._turns.values() if turn.state == "running"]
        waiting = [turn for turn in self._turns.values() if turn.state == "waiting"]
        if now >= self._save_at:
            self._save_at = now + SAVE_S
            for step in self._steps.values():
                step.history.save()
        parked = [turn for turn in self._turns.values() if turn.state == "parked"]
        if not running and not waiting and not parked:
            return
        if now >= self._measure_at:
            self._measure(running)
            self._measure_at = now + max(TICK_S, _SHARE * (time.monotonic() - now))
        if now >= self._breathe_at:
            self._breathe_at = now + ALIVE_S
            for link in [*(turn.gate for turn in waiting), *(turn.launcher for turn in parked)]:
                if link is not None:
                    link.say("wait")
        self._hand_out(running, waiting, now)
        for step in self._steps.values():
            self._pick(step, step.pick, now)

    def _pick(self, step: StepJobs, pick: Pick | None, now: float) -> None:
        """Let units of a probe go that wait, or end them all when it is over."""
        if pick is None:
            return
        mine = [turn for turn in self._turns.values() if turn.step is step]
        waiting = [turn.unit for turn in mine if turn.state == "parked"]
        for unit in pick.released(waiting, len(mine) - len(waiting), now, self._slots):
            self._go(self._turns[unit.number])
        if pick.over_at is None or now < pick.over_at + LAST_WORD_S:
            return
        for turn in mine:
            if turn.state == "parked" and turn.launcher is not None:
                turn.launcher.say("stop", TURNED_AWAY)
                turn.launcher.number = 0
                del self._turns[turn.unit.number]
            elif turn.gate is not None:
                turn.gate.kill()

    def _hand_out(self, running: list[Turn], waiting: list[Turn], now: float) -> None:
        """End the unit that is too much, or start those that fit."""
        if any(turn.told for turn in running):  # what it takes comes back in a moment
            return
        grants = [turn.grant() for turn in running]
        room = Room(self._slots, memory.read_memory().available, self._reserve, self._budget)
        over = end_now(grants, room)
        if over is not None:
            turn = self._turns[over.unit]
            turn.told = True
            self._warn(turn.unit.step, f"memory runs short: {turn.unit.name} is ended, and run again alone")
            turn.tell("end")
            return
        if running and memory.stalled() > STALLED:
            return
        for wish in start_now([turn.wish() for turn in waiting], grants, room, now):
            self._turns[wish.unit].start(now)

    def _measure(self, running: list[Turn]) -> None:
        below = memory.children() if running else {}
        for turn in running:
            turn.measured(memory.tree_bytes(turn.gate_pid, below))
        used = sum(turn.used for turn in running)
        self.peak = max(self.peak, used)
        budget = used + max(0, memory.read_memory().available - self._reserve)
        self._watch(Use(len(running), self._slots, used, min(budget, self._budget or budget)))
