"""What should not lie in a wheel, or in a folder: links that break, and libraries that others bring."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.audit.findings import Finding
from orchestrator.inspect.zipped import Damage

if TYPE_CHECKING:
    from orchestrator.inspect.zipped import WheelFile

_TARGET_AT_MOST = 4096
_LINKS_AT_MOST = 20
_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml|nvidia-ptxjitcompiler)(?:-[0-9a-f]{6,})?\.so(?:\.\d+)*")
"""Libraries that come with the driver, also as auditwheel renames what it copies into a wheel."""
_TORCH = re.compile(r"lib(?:torch(?:_cpu|_cuda|_python)?|c10(?:_cuda)?)(?:-[0-9a-f]{6,})?\.so")
_GRAFTED_CUDA = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc|cudnn|nccl)-[0-9a-f]{6,}\.so(?:\.\d+)*")


def check_members(wheel: WheelFile) -> list[Finding]:
    """Find links, and libraries that the driver, torch or CUDA's own wheels bring.

    Returns:
        `dangling-link` and `bundled-driver`, `bundled-torch` (errors), `bundled-cuda` (a warning).
    """
    found = []
    for info in wheel.members:
        path = info.filename
        if stat.S_ISLNK(info.external_attr >> 16):
            target = wheel.head(info, Damage(), _TARGET_AT_MOST).decode("utf-8", "replace")
            text = f"{path} is a link to {target}: installers write that as a text file"
            found.append(Finding("error", "dangling-link", text))
        folder, _, name = path.rpartition("/")
        if _DRIVER.fullmatch(name) and "stubs" not in folder.split("/"):
            text = f"{path} belongs to the driver: a copy fails with every other driver"
            found.append(Finding("error", "bundled-driver", text))
        elif _TORCH.fullmatch(name) and folder != "torch/lib":
            text = f"{path} is a copy of torch's library: one process cannot hold two"
            found.append(Finding("error", "bundled-torch", text))
        elif _GRAFTED_CUDA.fullmatch(name):
            text = f"{path} was copied in by a repair: it is not the CUDA that torch loads"
            found.append(Finding("warning", "bundled-cuda", text))
    return found


def check_tree(root: Path) -> list[Finding]:
    """Find links below `root`, an unpacked wheel or an environment, that point nowhere (`dangling-link`)."""
    broken = []
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(folder, name)
            if path.is_symlink() and _leads_nowhere(path):
                broken.append(f"{path.relative_to(root).as_posix()} points to {path.readlink()}")
    found = [
        Finding("error", "dangling-link", f"{text}, which does not exist")
        for text in sorted(broken)[:_LINKS_AT_MOST]
    ]
    if len(broken) > _LINKS_AT_MOST:
        text = f"{len(broken) - _LINKS_AT_MOST:,} more links point nowhere"
        found.append(Finding("error", "dangling-link", text))
    return found


def _leads_nowhere(link: Path) -> bool:
    try:
        return not link.exists()
    except OSError:  # a folder on the way may not be entered: nobody can tell
        return False
