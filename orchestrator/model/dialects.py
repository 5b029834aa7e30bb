"""How each build system is told the same arches.

Sources: nvcc's documentation of `--generate-code`; CMake's CUDA_ARCHITECTURES; PyTorch 2.14.1's
`select_compute_arch.cmake` and `torch.utils.cpp_extension`; FlashInfer 0.7's compilation context;
flash-attention 2.8's setup.py. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from orchestrator.errors import ArchError, UnknownNameError
from orchestrator.model.archnotes import ArchNote

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.model.archvalues import Entry

_EXTENSION_PLAIN: Final = frozenset({75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121})
_EXTENSION_A: Final = frozenset({90, 100, 103, 110, 120, 121})
"""What `_get_cuda_arch_flags` of PyTorch 2.14 accepts, of the arches that CUDA 13.0 knows."""

_FLASHINFER_SUFFIXES_FROM: Final = 9


def nvcc_arguments(entries: tuple[Entry, ...]) -> tuple[str, ...]:
    """Return one `-gencode` argument for each image, SASS before PTX of the same arch."""
    arguments: list[str] = []
    for entry in entries:
        head = f"-gencode=arch={entry.arch.ptx_name},code="
        arguments += [head + entry.arch.name] if entry.sass else []
        arguments += [head + entry.arch.ptx_name] if entry.ptx else []
    return tuple(arguments)


def _cmake(entry: Entry) -> str:
    # CMake compiles a bare number for both, so that SASS alone must be said
    mode = "" if entry.sass and entry.ptx else "-real" if entry.sass else "-virtual"
    return entry.arch.number + mode


def _sayable(entry: Entry) -> str | None:
    del entry
    return None


def _refuse_ptx_alone(entry: Entry) -> str | None:
    return None if entry.sass else f"PyTorch cannot be asked for PTX without SASS ({entry})"


def _refuse_extension(entry: Entry) -> str | None:
    arch = entry.arch
    if arch.suffix == "f":
        return f"PyTorch's extension builder knows no family arch ({arch})"
    if arch.sm not in (_EXTENSION_A if arch.suffix else _EXTENSION_PLAIN):
        return f"PyTorch's extension builder does not know {arch}"
    return _refuse_ptx_alone(entry)


def _refuse_flashinfer(entry: Entry) -> str | None:
    return f"FlashInfer cannot be asked for PTX ({entry})" if entry.ptx else None


@dataclass(frozen=True, slots=True)
class _Dialect:
    spell: Callable[[Entry], str]
    separator: str
    refuse: Callable[[Entry], str | None]
    """The reason why it cannot say an entry, or None."""


_DIALECTS: Final = {
    "nvcc": _Dialect(lambda entry: " ".join(nvcc_arguments((entry,))), " ", _sayable),
    "torch-cmake": _Dialect(str, ";", _refuse_ptx_alone),
    "torch-extension": _Dialect(str, ";", _refuse_extension),
    "cmake": _Dialect(_cmake, ";", _sayable),
    "flashinfer": _Dialect(str, " ", _refuse_flashinfer),
    # FLASH_ATTN_CUDA_ARCHS knows five numbers and no suffix: 121 gives no SASS, and 120 differs by
    # version. Empty, it adds no -gencode of its own, and TORCH_CUDA_ARCH_LIST (torch-extension) decides.
    "flash-attn": _Dialect(lambda _: "", "", _refuse_extension),
}

DIALECTS: Final = tuple(_DIALECTS)
"""`nvcc`: -gencode arguments. `torch-cmake`: TORCH_CUDA_ARCH_LIST for a CMake build on PyTorch (PyTorch
itself, vLLM). `torch-extension`: the same variable for `torch.utils.cpp_extension`. `cmake`:
CMAKE_CUDA_ARCHITECTURES. `flashinfer`: FLASHINFER_CUDA_ARCH_LIST. `flash-attn`: FLASH_ATTN_CUDA_ARCHS,
always empty, and only together with TORCH_CUDA_ARCH_LIST as torch-extension spells it."""


def refusal(entries: tuple[Entry, ...], dialect: str) -> str | None:
    """Return why `dialect` cannot say `entries`, or None when it can.

    Raises:
        UnknownNameError: no such dialect.
        ArchError: there are no entries; a build told nothing would detect a GPU, or take a default.
    """
    if dialect not in _DIALECTS:
        raise UnknownNameError("arch dialect", dialect, DIALECTS)
    if not entries:
        raise ArchError(f"no arch to say in {dialect}", hint="a component without arches is not built")
    return next(filter(None, map(_DIALECTS[dialect].refuse, entries)), None)


def env_value(entries: tuple[Entry, ...], dialect: str) -> str | None:
    """Spell `entries` as the value of a variable; None when the dialect cannot say them exactly.

    Raises:
        UnknownNameError, ArchError: as `refusal`.
    """
    if refusal(entries, dialect):
        return None
    chosen = _DIALECTS[dialect]
    return chosen.separator.join(map(chosen.spell, entries))


def translate(entries: tuple[Entry, ...], dialect: str) -> str | tuple[str, ...] | None:
    """Spell `entries` in `dialect`: a tuple of arguments for `nvcc`, else a string, or None.

    Raises:
        UnknownNameError, ArchError: as `refusal`.
    """
    value = env_value(entries, dialect)
    return nvcc_arguments(entries) if dialect == "nvcc" else value


def dialect_notes(entries: tuple[Entry, ...]) -> tuple[ArchNote, ...]:
    """Say which dialects cannot say `entries`, and which read more into them."""
    notes = [
        ArchNote("info", f"not-in-{dialect}", f"no value for {dialect}: {reason}")
        for dialect in DIALECTS
        if (reason := refusal(entries, dialect))
    ]
    plain = [e.arch for e in entries if not e.arch.suffix and e.arch.major >= _FLASHINFER_SUFFIXES_FROM]
    if plain and env_value(entries, "flashinfer") is not None:
        names = ", ".join(map(str, plain))
        text = f"FlashInfer adds a suffix of its own to {names} (12.0 becomes 12.0f, others get a)"
        notes.append(ArchNote("info", "flashinfer-suffix", text))
    return tuple(notes)
