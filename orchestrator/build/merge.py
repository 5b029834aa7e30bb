"""Several unpacked wheels, merged into one tree of hard links.

Where links do not work (another file system, too many links, no permission) files are copied.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKETS = ("site", "scripts", "data", "headers")

_NO_LINK = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS)

# What many wheels drop at the root of site-packages by mistake, and nothing imports from there.
_STRAY = re.compile(
    r"site/(?:(?:tests?|docs?|examples?|benchmarks?)/.*"
    r"|(?:LICEN[CS]E|NOTICE|README|CHANGE(?:S|LOG)|AUTHORS|COPYING)[^/]*|pyproject\.toml|setup\.(?:py|cfg))",
    re.IGNORECASE,
)
_NAMESPACE_LINE = re.compile(
    r"\s*(?:#.*|from pkgutil import extend_path|import pkg(?:util|_resources)"
    r"|__path__ = .*extend_path\(__path__, __name__\)|.*pkg_resources.*declare_namespace\(__name__\)"
    r"|try:|except ImportError:|pass)?\s*"
)


@dataclass(slots=True)
class Merge:
    """The result of `merge`: counts, and what was kept once though two wheels differ in it."""

    linked: int = 0
    copied: int = 0
    stray: list[str] = field(default_factory=list)


def merge(trees: Sequence[tuple[str, Path]], destination: Path) -> Merge:
    """Link all files of the trees into `destination`.

    Args:
        trees: a label such as `torch 2.14.1` and a tree as `unpack_wheel` makes it, each. The order
            decides whose stray files (a README at the root) are kept.
        destination: an existing folder.

    Raises:
        LockError: two wheels own one path with different bytes.
        OSError: as the system says it.
    """
    result = Merge()
    for index, (label, tree) in enumerate(trees):
        for bucket in BUCKETS:
            source = tree / bucket
            if source.is_dir():
                place = f"headers/{label.split(' ')[0]}" if bucket == "headers" else bucket
                target = destination / place
                target.mkdir(parents=True, exist_ok=True)
                _Linker(trees[: index + 1], destination, result).folder(str(source), str(target), place)
    return result


@dataclass(frozen=True, slots=True)
class _Linker:
    trees: Sequence[tuple[str, Path]]
    destination: Path
    result: Merge

    def folder(self, source: str, target: str, place: str) -> None:
        with os.scandir(source) as entries:
            for entry in entries:
                here, there, path = entry.path, f"{target}/{entry.name}", f"{place}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    try:
                        os.mkdir(there)  # noqa: PTH102 - ten thousands of files: no Path for each
                    except FileExistsError:
                        if not os.path.isdir(there):  # noqa: PTH112 - the same
                            raise self.conflict(path) from None
                    self.folder(here, there, path)
                else:
                    self.file(here, there, path)

    def file(self, source: str, target: str, path: str) -> None:
        try:
            os.link(source, target, follow_symlinks=False)
            self.result.linked += 1
        except FileExistsError:
            self.settle(Path(source), Path(target), path)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            if os.path.lexists(target):
                self.settle(Path(source), Path(target), path)
            else:
                _copy(source, target)
                self.result.copied += 1

    def settle(self, source: Path, target: Path, path: str) -> None:
        """Two wheels own `path`: keep what is there, take the other, or refuse."""
        if not target.is_file():
            raise self.conflict(path)
        if filecmp.cmp(source, target, shallow=False):
            return
        if target.name == "__init__.py":
            if _is_namespace(source):
                return
            if _is_namespace(target):
                target.unlink()
                self.file(str(source), str(target), path)
                return
        if _STRAY.fullmatch(path):
            self.result.stray.append(path)
            return
        raise self.conflict(path)

    def conflict(self, path: str) -> LockError:
        bucket, _, rest = path.partition("/")
        owners = [label for label, tree in self.trees if os.path.lexists(tree / bucket / rest)]
        return LockError(
            f"{' and '.join(owners)} both own {path.removeprefix('site/')}, with different content",
            hint="one of them has to go: change the requirements that bring them, and lock again",
        )


def _copy(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    shutil.copymode(source, target)


def _is_namespace(init: Path) -> bool:
    """Tell whether an `__init__.py` only says that its package is shared by several wheels."""
    text = init.read_text("utf-8", errors="replace")
    text = re.sub(r'\A\s*("""|\'\'\').*?\1', "", text, count=1, flags=re.DOTALL)
    return all(_NAMESPACE_LINE.fullmatch(line) for line in text.splitlines())
