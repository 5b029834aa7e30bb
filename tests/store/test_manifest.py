"""A manifest is believed only whole and of its own key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_help import KEY, draft

from orchestrator.errors import BuildFailedError, StoreError
from orchestrator.store import manifest as manifests
from orchestrator.store.manifest import Audit, BadManifestError, Cost, Manifest, StoredFile

if TYPE_CHECKING:
    from collections.abc import Callable

FULL = draft(
    key=KEY,
    files=(StoredFile(name="a.whl", sha256="0" * 64, size=1, mtime_ns=2, inode=3),),
    audit=Audit(key="a", verdict="pass", coverage="3 of 3 sm_121a"),
    cost=Cost(wall_s=1.5, cpu_s=2.5, peak_bytes=4),
    created="2026-12-01T00:00:00+00:00",
    log="/logs/x.log",
)
TEXT = st.text(max_size=20)


@given(
    manifest=st.builds(
        Manifest,
        key=st.just(KEY),
        name=TEXT,
        version=TEXT,
        ingredients=st.dictionaries(TEXT, TEXT, max_size=4),
        log=st.none() | TEXT,
        created=TEXT,
        schema=st.just(manifests.SCHEMA),
        files=st.just(FULL.files),
        audit=st.none() | st.builds(Audit, key=TEXT, verdict=TEXT, coverage=TEXT),
        cost=st.builds(
            Cost, wall_s=st.floats(0, 1e6), cpu_s=st.floats(0, 1e6), peak_bytes=st.integers(0, 2**40)
        ),
        seal=st.just(""),
    )
)
def test_what_is_written_is_read(manifest: Manifest) -> None:
    data = manifests.encode(manifest)
    read = manifests.decode(data, KEY)
    assert read == manifest
    assert manifests.encode(read) == data


def test_the_json_is_canonical() -> None:
    one = draft(key=KEY)
    two = msgspec.structs.replace(
        one, ingredients=dict(reversed(list((one.ingredients | {"b": "1"}).items())))
    )
    three = msgspec.structs.replace(one, ingredients={"b": "1"} | one.ingredients)
    assert manifests.encode(two) == manifests.encode(three)


@given(at=st.integers(0, len(manifests.encode(FULL)) * 8 - 1))
def test_a_flipped_bit_never_changes_the_story(at: int) -> None:
    data = bytearray(manifests.encode(FULL))
    data[at // 8] ^= 1 << at % 8
    try:
        read = manifests.decode(bytes(data), KEY)
    except BadManifestError:
        return
    assert read == FULL


@given(size=st.integers(0, len(manifests.encode(FULL)) - 2))
def test_a_truncated_one_is_bad(size: int) -> None:
    with pytest.raises(BadManifestError):
        manifests.decode(manifests.encode(FULL)[:size], KEY)


@pytest.mark.parametrize(
    "data", [b"null", b"[]", b"{}", b"\x00" * 100, b"\xff", b'{"schema": "sparkbuild.manifest/2"}']
)
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(BadManifestError, match="unreadable"):
        manifests.decode(data, KEY)


def test_another_key() -> None:
    with pytest.raises(BadManifestError, match="another key"):
        manifests.decode(manifests.encode(FULL), "cd" * 32)


def test_a_missing_one(tmp_path: Path) -> None:
    with pytest.raises(BadManifestError, match="missing"):
        manifests.read(tmp_path)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "/etc/passwd", "a\0b", "n" * 256, "manifest.json", "simple"]
)
def test_names_that_no_artifact_may_hold(name: str) -> None:
    with pytest.raises(
        BuildFailedError, match=r"the build left a file named .*, which cannot be stored"
    ) as caught:
        manifests.check_file_name(name)
    assert caught.value.exit_code == 1
    assert caught.value.hint is not None


@pytest.mark.parametrize("name", ["torch-2.14.1+cu130-cp312-cp312-linux_aarch64.whl", "a", "n" * 255])
def test_names_that_fit(name: str) -> None:
    manifests.check_file_name(name)


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", ".a", "k" * 129, "a\n", "ä"])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(StoreError):
        manifests.check_key(key)


def _link(path: Path) -> None:
    path.with_name("other.json").write_bytes(b"{}")
    path.symlink_to("other.json")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, _link])
def test_what_is_no_plain_file_is_no_manifest(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / manifests.FILE_NAME)
    with pytest.raises(BadManifestError, match="cannot be read"):
        manifests.read(tmp_path)
