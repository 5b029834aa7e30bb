"""Whether a stranger's wheel claims CUDA, and then holds no device code at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.audit.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.audit.findings import Level

_LOCAL = re.compile(r"[+._-]cu(?:da)?\d{2,3}(?!\d)")
"""`+cu130`, `+cu12torch2.8`, `+sm121a.cu130`: the build was made for a CUDA, as torch's index spells it."""
_NAME = re.compile(r"(?:^|[-_.])(?:cu|cuda)[-_.]?\d{2,3}x?(?=[-_.]|$)")
"""`cupy-cuda13x`, `nixl-cu13`: one build of several, by CUDA."""
_RUNTIME = re.compile(r"libcudart(?:-[0-9a-f]+)?\.so")
_DRIVER = re.compile(r"libcuda(?:-[0-9a-f]+)?\.so")
_OWN = re.compile(r"(?:nvidia|cuda)[-_.]")
"""Parts of CUDA itself: headers, compilers, bindings and the runtime rightly hold no device code."""


def check_claim(name: str, version: str, needed: Iterable[str], *, has_device_code: bool) -> list[Finding]:
    """Judge a wheel without a policy that holds no device code.

    Args:
        name: of the distribution.
        version: with its local part.
        needed: names of the libraries that its ELF files are linked with.
        has_device_code: whether any file of it holds device code.

    Returns:
        `claims-cuda`, as an error when the wheel was built for CUDA (its local version says so, or its files
        are linked with the CUDA runtime, whose use is to launch kernels): then the device part was left out.
        A name says less, since loaders, bindings and transports have such names too: a warning. With the
        driver alone a compiler such as triton is linked: an info. Parts of CUDA itself are not judged.
    """
    if has_device_code or _OWN.match(name.lower()):
        return []
    needed = sorted(needed)
    _, plus, local = version.lower().partition("+")
    runtime = next((each for each in needed if _RUNTIME.match(each)), None)
    driver = next((each for each in needed if _DRIVER.match(each)), None)
    if _LOCAL.search(plus + local):
        return [_finding("error", f"its version {version} says that it was built for CUDA")]
    if runtime is not None:
        return [_finding("error", f"its files are linked with {runtime}")]
    if _NAME.search(name.lower()):
        return [_finding("warning", f"its name {name} says that it was built for CUDA")]
    if driver is not None:
        text = (
            f"it holds no device code and is linked with {driver}: what it runs is compiled or loaded later"
        )
        return [Finding("info", "claims-cuda", text)]
    return []


def _finding(level: Level, why: str) -> Finding:
    return Finding(level, "claims-cuda", f"it holds no device code, but {why}")
