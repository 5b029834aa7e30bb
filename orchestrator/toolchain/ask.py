"""Short questions to tools: `--version`, an empty unit. Nothing long runs here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.errors import MachineError, ToolMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TIMEOUT_S = 120.0

_FAULT = re.compile(r"\b(?:fatal|error|unsupported|not supported|cannot|undefined)\b", re.IGNORECASE)

# NVCC_APPEND_FLAGS, CPATH and their like would change the answer, so they stay out.
_PASSED = ("PATH", "TMPDIR", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool said: `text` is stdout and stderr together, as they came."""

    code: int
    text: str

    @property
    def first_line(self) -> str:
        """The first line that holds something."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")

    @property
    def telling_line(self) -> str:
        """The first line that speaks of a fault, else the first one."""
        return next((line.strip() for line in self.text.splitlines() if _FAULT.search(line)), self.first_line)


def ask(argv: Sequence[str | Path], *, cwd: Path | None = None, timeout_s: float = TIMEOUT_S) -> Answer:
    """Run a tool that ends soon and return what it says; its messages are in English.

    Raises:
        ToolMissingError: there is no such program, or it cannot be run.
        MachineError: it did not end in time.
    """
    import sh

    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    command = [str(part) for part in argv]
    try:
        done = sh.Command(command[0])(
            *command[1:],
            _cwd=str(cwd) if cwd else None,
            _env=environment | {"LC_ALL": "C"},
            _in="",
            _tty_in=False,  # some tools colour and wrap what they say to a terminal
            _tty_out=False,
            _err_to_out=True,
            _ok_code=list(range(256)),
            _timeout=timeout_s,
            _return_cmd=True,
        )
    except sh.TimeoutException as error:
        raise MachineError(
            f"no answer within {timeout_s:g} s: {' '.join(command)}",
            where=command[0],
            hint="run the command by hand; a hanging file system or a wrapper may be the cause",
        ) from error
    except sh.SignalException as error:
        return Answer(error.exit_code, error.stdout.decode("utf-8", errors="replace"))
    except sh.CommandNotFound as error:
        raise ToolMissingError(
            "there is no such program, or it may not be run",
            where=command[0],
            hint="install it, or name another one",
        ) from error
    except (sh.ForkException, OSError) as error:
        raise ToolMissingError(
            f"cannot be run: {_reason(error)}", where=command[0], hint="install it, or name another one"
        ) from error
    return Answer(done.exit_code, done.stdout.decode("utf-8", errors="replace"))


def _reason(error: Exception) -> str:
    """Return why a program does not start; the library tells it with a traceback of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
