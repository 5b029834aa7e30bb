"""Locked wheels, fetched by one pip under the user's own configuration, verified by ourselves."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import MismatchError, OfflineError, SourceError
from orchestrator.report.events import Progress, silent
from orchestrator.source import disk
from orchestrator.source.child import run_child
from orchestrator.source.mirrors import NO_MIRRORS
from orchestrator.source.pipconfig import PIP, index_config
from orchestrator.store.atomic import no_space, remove_tree
from orchestrator.store.names import is_pip_temporary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.model.lock import LockedFile
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.store.home import Home

_LISTED = 8
_TEMPORARY = ".pip-"
_OPTIONS = (
    *("--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-cache-dir"),
    *("--disable-pip-version-check", "--no-input", "--progress-bar", "off"),
)


def fetch_wheels(
    files: Sequence[LockedFile],
    *,
    home: Home,
    offline: bool = False,
    emit: Emit = silent,
    step: str = "fetch",
    mirrors: Mirrors = NO_MIRRORS,
) -> dict[str, Path]:
    """Return where each locked wheel lies, by its sha256; what is missing is downloaded and verified.

    Args:
        files: wheels for this machine and Python, each as locked; repetitions are fine.
        home: where they are kept: `downloads/<sha256>/<file>`.
        offline: no network.
        emit: hears of progress, and a warning about each kept wheel that was damaged since.
        step: whose progress it is.
        mirrors: other places; a folder of wheels is asked beside the user's indexes.

    Raises:
        OfflineError: some are not there; lists them.
        MismatchError: pip was served other bytes than the locked ones; nothing of it is kept.
        SourceError: pip could not get them.
        NoSpaceError: the disk is, or would get, full.
    """
    wanted = {file.sha256: file for file in files}
    found, missing, faults = _split(wanted.values(), home)
    if not missing:
        return found
    if offline:
        damaged = "".join(f"; {file.file} is damaged: {fault}" for file, fault in faults[:1])
        raise OfflineError(
            f"{len(missing)} of {len(wanted)} wheels are not here, and the network is not allowed: "
            f"{_names(missing)}{damaged}",
            where=str(home.downloads),
            hint="run `sparkbuild fetch` once with the network",
        )
    from filelock import FileLock

    home.locks.mkdir(parents=True, exist_ok=True)
    home.downloads.mkdir(parents=True, exist_ok=True)
    with FileLock(home.locks / "download-wheels.lock"), disk.telling_full(home.downloads):
        for stale in home.downloads.glob(f"{_TEMPORARY}*"):  # left by a run that was killed
            if is_pip_temporary(stale.name):
                remove_tree(stale)
        more, missing, faults = _split(missing, home)
        found |= more
        for file, fault in faults:
            disk.discard(home, file, fault, emit)
        # pip writes each file twice: where it downloads, and where it was told to.
        disk.need_space(home.downloads, 2 * sum(file.size for file in missing))
        for batch in _batches(missing):
            emit(Progress(step, f"pip downloads {len(batch)} wheels, {_gib(batch):.2f} GiB"))
            with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=home.downloads) as temporary:
                _download(batch, Path(temporary), emit=emit, step=step, mirrors=mirrors)
                found |= _take(batch, Path(temporary) / "got", home)
    return {sha256: found[sha256] for sha256 in wanted}


def _split(
    files: Iterable[LockedFile], home: Home
) -> tuple[dict[str, Path], list[LockedFile], list[tuple[LockedFile, str]]]:
    """Return what is here, what is not, and what of the latter is here but damaged, and how."""
    found: dict[str, Path] = {}
    missing: list[LockedFile] = []
    faults: list[tuple[LockedFile, str]] = []
    for file in files:
        path, fault = disk.kept(home, file)
        if path is not None:
            found[file.sha256] = path
            continue
        missing.append(file)
        if fault:
            faults.append((file, fault))
    return found, sorted(missing), faults


def _batches(files: Iterable[LockedFile]) -> list[list[LockedFile]]:
    """Split so that no batch names a distribution twice, which pip refuses; mostly one batch."""
    batches: list[dict[str, LockedFile]] = []
    for file in files:
        batch = next((batch for batch in batches if file.name not in batch), None)
        if batch is None:
            batches.append(batch := {})
        batch[file.name] = file
    return [list(batch.values()) for batch in batches]


def _download(batch: Sequence[LockedFile], folder: Path, *, emit: Emit, step: str, mirrors: Mirrors) -> None:
    """Let pip download a batch into `folder/got`."""
    requirements = folder / "requirements.txt"
    requirements.write_text(
        "".join(f"{file.name}=={file.version} --hash=sha256:{file.sha256}\n" for file in batch)
    )
    (folder / "tmp").mkdir()
    lines: list[str] = []

    def heard(line: str) -> None:
        lines.append(line)
        if (text := line.strip()).startswith("Downloading "):
            name, _, size = text.removeprefix("Downloading ").partition(" ")
            emit(Progress(step, f"downloading {name.rsplit('/', 1)[-1]} {size}".rstrip()))

    finished = run_child(
        [*PIP, "download", *_OPTIONS, "-r", str(requirements), "-d", str(folder / "got")],
        env=_environment(folder / "tmp") | _elsewhere(mirrors),
        on_line=heard,
    )
    if finished.returncode != 0:
        raise _told("\n".join([*lines, finished.stderr]), finished.returncode, batch, folder)


def _environment(temporary: Path) -> dict[str, str]:
    """Return the user's environment, in which constraints of theirs cannot contradict the lock."""
    return {
        "PIP_RESUME_RETRIES": "5",
        **os.environ,
        # An empty value would be ignored in favour of a configuration file's.
        "PIP_CONSTRAINT": os.devnull,
        "PIP_REQUIRE_VIRTUALENV": "0",
        "TMPDIR": str(temporary),
    }


def _elsewhere(mirrors: Mirrors) -> dict[str, str]:
    """Return what tells pip of the mirrors; nothing without any, since pip's own configuration holds."""
    if not mirrors.all:
        return {}
    config = mirrors.index(index_config())
    told = {
        "PIP_INDEX_URL": config.index_urls[:1],
        "PIP_EXTRA_INDEX_URL": config.index_urls[1:],
        "PIP_FIND_LINKS": config.find_links,
    }
    return {name: " ".join(places) for name, places in told.items() if places}


def _take(batch: Sequence[LockedFile], folder: Path, home: Home) -> dict[str, Path]:
    """Verify what pip left, move it to its place, and return sha256 -> place."""
    taken: dict[str, Path] = {}
    for file in batch:
        path = folder / file.file
        if not path.is_file():
            others = ", ".join(sorted(entry.name for entry in folder.iterdir())) if folder.is_dir() else ""
            raise SourceError(
                f"pip downloaded no {file.file}; it took: {others or 'nothing'}",
                where=f"{file.name} {file.version}",
                hint="an index of yours has another file of this version: see `python -m pip config list`",
            )
        disk.verify(path, file, came_from=f"{file.name} {file.version}")
        taken[file.sha256] = disk.keep(path, home, file)
    return taken


def _told(text: str, returncode: int, batch: Sequence[LockedFile], folder: Path) -> Exception:
    """Return what pip's output means."""
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return no_space(folder.parent, needed=2 * sum(file.size for file in batch))
    expected = re.search(r"Expected sha256 +([0-9a-f]{64})", text)
    got = re.search(r"Got +([0-9a-f]{64})", text)
    if expected and got:
        file = next((file for file in batch if file.sha256 == expected[1]), batch[0])
        return MismatchError(
            f"{file.file} is not the one in the lock: expected sha256 {expected[1]}, found {got[1]}",
            where=f"{file.name} {file.version}",
            hint="nothing was kept; an index of yours may serve other files (`python -m pip config list`); "
            "if the publisher replaced it on purpose, run `sparkbuild lock`",
        )
    if absent := re.search(r"No matching distribution found for (\S+)", text):
        return SourceError(
            f"no package index has a wheel of {absent[1]} for this machine and Python",
            where=_names(batch),
            hint="was the lock made for another platform or Python? `python -m pip config list` says "
            "which indexes were asked",
        )
    said = [line for line in text.splitlines() if line.startswith("ERROR")] or text.strip().splitlines()[-3:]
    return SourceError(
        f"pip ended with {returncode}: {' / '.join(said) or 'it said nothing'}",
        where=_names(batch),
        hint="check the network (proxy, certificates, `python -m pip config list`), then run the same again",
    )


def _names(files: Sequence[LockedFile]) -> str:
    shown = ", ".join(file.file for file in files[:_LISTED])
    return shown + (f" and {len(files) - _LISTED} more" if len(files) > _LISTED else "")


def _gib(files: Sequence[LockedFile]) -> float:
    return sum(file.size for file in files) / 2**30
