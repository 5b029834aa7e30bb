"""Words that people write where an arch is expected, and what to tell them.

Sources: PyTorch 2.14's FindCUDA `select_compute_arch.cmake` and `torch.utils.cpp_extension`, CMake's
CUDA_ARCHITECTURES, NVIDIA's list of CUDA GPUs.
"""

from __future__ import annotations

import re
from typing import Final

from orchestrator.errors import ArchError

HOW_TO_ASK: Final = "ask the GPU with `nvidia-smi --query-gpu=compute_cap --format=csv,noheader`"

_DETECTION: Final = frozenset({"native", "auto", "all", "all-major", "common", "detect"})

_DROPPED: Final = frozenset({"fermi", "kepler", "maxwell", "pascal", "volta"})

_GENERATIONS: Final = {
    "turing": ("7.5", "7.5"),
    "ampere": ("8.0, 8.6 and 8.7", "8.0 (A100), 8.6 (RTX 30) or 8.7 (Orin)"),
    "ada": ("8.9", "8.9"),
    "hopper": ("9.0 and 9.0a", "9.0a (H100, H200)"),
    "blackwell": (
        "10.0, 10.3, 11.0, 12.0 and 12.1 (10.0;12.0 to PyTorch's CMake, all but 11.0 to its extensions)",
        "12.1a (DGX Spark), 12.0a (RTX 50), 10.0a (B200), 10.3a (B300) or 11.0a (Thor)",
    ),
}
"""Generation -> (what it could mean, what to write)."""

_PRODUCTS: Final = {
    "gb10": "12.1a",
    "spark": "12.1a",
    "dgx-spark": "12.1a",
    "thor": "11.0a",
    "b300": "10.3a",
    "gb300": "10.3a",
    "b200": "10.0a",
    "gb200": "10.0a",
    "h100": "9.0a",
    "h200": "9.0a",
    "gh200": "9.0a",
    "orin": "8.7",
    "a100": "8.0",
}


def refuse_word(token: str) -> None:
    """Raise the fitting error when `token` is a word that others take for an arch; else return.

    Raises:
        ArchError: it is a name, a request to detect, or what PyTorch's CMake bug leaves of 12.1.
    """
    word = token.lower().partition("+")[0]
    if word in _DETECTION:
        raise ArchError(
            f"{token!r} leaves the arch to whatever machine compiles",
            hint=f"name the arch, such as 12.1a; {HOW_TO_ASK}",
        )
    if word in _GENERATIONS:
        meaning, choice = _GENERATIONS[word]
        raise ArchError(f"{token!r} is ambiguous: it covers {meaning}", hint=f"write {choice}")
    if word in _DROPPED:
        raise ArchError(f"{token!r} was dropped by CUDA 13", hint="the oldest arch is 7.5 (Turing)")
    if word in _PRODUCTS:
        raise ArchError(f"{token!r} is a product, not an arch", hint=f"write {_PRODUCTS[word]}")
    pair = re.fullmatch(r"([0-9]+\.[0-9][a-z]?)\(([0-9]+\.[0-9][a-z]?)\)(?:\+ptx)?", token.lower(), re.ASCII)
    if pair is None:
        return
    if pair[1].endswith("2.1") and pair[2] == "2.0":
        raise ArchError(
            f"{token!r} comes from a bug in PyTorch's CMake: its auto-detection replaces the text 2.1 inside"
            f" {pair[1]} by 2.1(2.0), and nvcc is asked for compute_20",
            hint="set the arch list yourself, such as 12.1a, so that nothing is detected",
        )
    raise ArchError(
        f"{token!r} names one arch for SASS and another for PTX, which is not supported",
        hint=f"write {pair[1]}",
    )
