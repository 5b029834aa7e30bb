"""Links, and libraries that others bring."""

from __future__ import annotations

import stat
import zipfile
from typing import TYPE_CHECKING

import pytest

from orchestrator.inspect.misplaced import check_members, check_tree
from orchestrator.inspect.zipped import WheelFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from orchestrator.audit.findings import Finding


def checked(folder: Path, files: Mapping[str, str], *, mode: int = 0o644) -> list[Finding]:
    path = folder / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = mode << 16
            archive.writestr(info, text)
    with WheelFile(path) as wheel:
        return check_members(wheel)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("pkg.libs/libcuda-7cd4ecb2.so.1", ("error", "bundled-driver")),
        ("pkg/lib/libcuda.so.1", ("error", "bundled-driver")),
        ("pkg/libcuda.so", ("error", "bundled-driver")),
        ("pkg.libs/libnvidia-ml-1a2b3c4d.so.1", ("error", "bundled-driver")),
        ("pkg/lib/stubs/libcuda.so", None),
        ("pkg/libcuda_helper.so", None),
        ("pkg/libcuda.so.py", None),
        ("pkg.libs/libtorch_cpu-0a1b2c3d.so", ("error", "bundled-torch")),
        ("pkg/libc10.so", ("error", "bundled-torch")),
        ("torch/lib/libc10.so", None),
        ("pkg/libtorchaudio.so", None),
        ("pkg.libs/libcudart-c3a75b33.so.13.0.48", ("warning", "bundled-cuda")),
        ("nvidia/cu13/lib/libcudart.so.13", None),
    ],
)
def test_libraries_that_others_bring(tmp_path: Path, path: str, told: tuple[str, str] | None) -> None:
    found = checked(tmp_path, {path: "x"})
    assert [(finding.level, finding.code) for finding in found] == ([told] if told else [])


def test_a_link_in_a_wheel(tmp_path: Path) -> None:
    """As FlashAttention's cute folder when its source is handed over by a variable."""
    (found,) = checked(tmp_path, {"pkg/cute": "/build/flash_attn/cute"}, mode=stat.S_IFLNK | 0o777)
    assert (found.level, found.code) == ("error", "dangling-link")
    assert found.text.startswith("pkg/cute is a link to /build/flash_attn/cute:")
    assert checked(tmp_path, {"pkg/cute": "/build/flash_attn/cute"}, mode=stat.S_IFREG | 0o755) == []


def test_links_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "real.py").write_text("")
    (tmp_path / "good").symlink_to("pkg")
    (tmp_path / "pkg" / "fine.py").symlink_to("real.py")
    assert check_tree(tmp_path) == []
    (tmp_path / "pkg" / "cute").symlink_to("/nonexistent/flash_attn/cute")
    (tmp_path / "loop").symlink_to("loop")
    assert [finding.text for finding in check_tree(tmp_path)] == [
        "loop points to loop, which does not exist",
        "pkg/cute points to /nonexistent/flash_attn/cute, which does not exist",
    ]


def test_many_broken_links_are_counted(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").symlink_to("gone")
    found = check_tree(tmp_path)
    assert len(found) == 21
    assert found[-1].text == "30 more links point nowhere"
