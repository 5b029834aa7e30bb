"""Every error that a person can meet, each with its exit code and what to do next.

Exit codes: 0 done; 1 a build, patch or smoke test failed; 2 bad arguments, recipe, or lock mismatch;
3 an audit failed or a SPEC could not be read; 4 the machine is not fit; 5 a source could not be had or
verified; 6 deadline reached, state kept; 70 a bug of ours; 130 and 143 interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class SparkbuildError(Exception):
    """Base of all errors that are told to a person without a traceback.

    Args:
        message: what happened, one sentence, without the hint.
        where: a file, `file:line:column`, a step, or a log that shows it.
        hint: what to do next; every error should have one.
    """

    exit_code: int = 1
    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    @property
    def placed(self) -> str:
        """The message, and where it is unless the message names that."""
        known = self.where is None or self.where in self.message
        return self.message if known else f"{self.message} ({self.where})"

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head}\n  hint: {self.hint}" if self.hint else head


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` was most likely meant to be, or None."""
    import difflib

    found = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


# --- 1: a build or a patch failed ---------------------------------------------------------------


class BuildFailedError(SparkbuildError):
    """A command of a build ended badly; `where` is its log."""

    code = "build-failed"


class UnitFailedError(BuildFailedError):
    """A build failed, and a compiler call of it did."""

    code = "compiler-failed"


class PatchError(SparkbuildError):
    """A patch does not apply, or is malformed; the tree is untouched."""

    code = "patch-conflict"


class TorchReplacedError(BuildFailedError):
    """A command changed the torch that the lock names."""

    code = "torch-replaced"


# --- 2: bad arguments, recipe or lock ------------------------------------------------------------


class UsageError(SparkbuildError):
    """The arguments cannot be meant."""

    exit_code = 2
    code = "usage"


class UnknownNameError(UsageError):
    """A recipe, stack or other name that does not exist."""

    code = "unknown-name"

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str | None = None) -> None:
        choices = sorted(known)
        guess = near_miss(name, choices)
        listed = ", ".join(choices) or "none"
        hint = f"did you mean {guess}?" if guess else f"known: {listed}"
        super().__init__(f"there is no {kind} named {name!r}", where=where, hint=hint)


class ArchError(UsageError):
    """An arch list that is not one; the message names the token."""

    code = "arch"


class NotApplicableError(UsageError):
    """The one recipe that was asked for cannot be built for the requested arch."""

    code = "not-applicable"


class RecipeError(UsageError):
    """A recipe, stack or policy file with a mistake; `where` is file:line:column."""

    code = "recipe"


class DuplicateRecipeError(RecipeError):
    """Two recipes of one name, or one named like a command."""

    code = "duplicate-recipe"


class CycleError(RecipeError):
    """Recipes that need each other; the message shows the circle."""

    code = "cycle"


class LockError(UsageError):
    """A lock that is missing, stale, or made for another platform or Python."""

    code = "lock"


# --- 3: the audit ---------------------------------------------------------------------------------


class AuditFailedError(SparkbuildError):
    """A wheel does not hold the machine code that its policy demands."""

    exit_code = 3
    code = "audit-failed"


class SpecError(SparkbuildError):
    """What should be audited could not be read."""

    exit_code = 3
    code = "spec"


# --- 4: the machine -------------------------------------------------------------------------------


class MachineError(SparkbuildError):
    """The machine lacks something that a build needs."""

    exit_code = 4
    code = "machine"


class ToolMissingError(MachineError):
    """A compiler, header or tool that is not there."""

    code = "tool-missing"


class ToolkitError(MachineError):
    """A CUDA toolkit that does not serve: version, headers, libraries or arch."""

    code = "toolkit"


class StoreError(SparkbuildError):
    """The store could not be read or written in a way that no other class names."""

    exit_code = 4
    code = "store"


class NoSpaceError(MachineError):
    """The disk is, or would get, full."""

    code = "disk-full"


# --- 5: sources -----------------------------------------------------------------------------------


class SourceError(SparkbuildError):
    """A source that could not be had."""

    exit_code = 5
    code = "source"


class MismatchError(SourceError):
    """Bytes that are not the ones in the lock; the message says expected and found."""

    code = "mismatch"


class ArchiveRefusedError(SourceError):
    """An archive that reaches outside its root, or unpacks to far more than it should."""

    code = "archive-refused"


class OfflineError(SourceError):
    """Something is needed from the network and the network is not allowed."""

    code = "offline"


# --- 70 -------------------------------------------------------------------------------------------


class UnforeseenError(SparkbuildError):
    """What nobody foresaw, in one step of a run: the others go on."""

    exit_code = 70
    code = "unforeseen"


# --- 130, 143 -------------------------------------------------------------------------------------


class InterruptedRunError(SparkbuildError):
    """The run was stopped by Ctrl-C (130) or SIGTERM (143); the state is kept."""

    exit_code = 130
    code = "interrupted"

    def __init__(self, signal_number: int) -> None:
        super().__init__("stopped", hint="the same command goes on where this one stopped")
        self.exit_code = 128 + signal_number


# --- 6 --------------------------------------------------------------------------------------------


class DeadlineError(InterruptedRunError):
    """The time that the run was given is over; the state is kept."""

    code = "deadline"

    def __init__(self) -> None:
        super().__init__(0)
        self.message = "the deadline is reached"
        self.hint = (
            "the same command goes on: finished components are stored, and the compiler cache has every unit "
            "that was compiled"
        )
        self.exit_code = 6
