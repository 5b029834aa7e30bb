"""`dist/<stack>/`: what is served, what is replaced, and that plain pip installs from the index."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import wheelhouse

from orchestrator.errors import StoreError, UsageError
from orchestrator.package.index import check_folder, entry_name, is_current, publish, read_listing
from orchestrator.store.atomic import sha256_file

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = entry_name("demo", "linux-x86_64.cp311")


def make_wheel(folder: Path, version: str, *, name: str = "demo_pkg", content: bytes = b"") -> Path:
    folder.mkdir(exist_ok=True)
    return wheelhouse.make_wheel(folder, name, {f"{name}.py": content}, version=version)[1]


def hashed(*wheels: Path) -> dict[Path, str]:
    return {wheel: sha256_file(wheel) for wheel in wheels}


def names(wheels: dict[Path, str]) -> dict[str, str]:
    return {wheel.name: digest for wheel, digest in wheels.items()}


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    return tmp_path / "dist" / "demo"


def test_plain_pip_installs_that_very_wheel(tmp_path: Path, dist: Path) -> None:
    wheel = make_wheel(tmp_path / "w", "1.0+cu130.sm121a", content=b"ours = True\n")
    publish(dist, {ENTRY: hashed(wheel)})
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--isolated", "--target", str(target)]
    subprocess.run([*pip, "--index-url", (dist / "simple").as_uri(), "demo-pkg"], check=True)
    assert (target / "demo_pkg.py").read_bytes() == b"ours = True\n"
    assert (target / "demo_pkg-1.0+cu130.sm121a.dist-info").is_dir()


def test_pip_refuses_a_wheel_that_was_changed_in_the_folder(tmp_path: Path, dist: Path) -> None:
    wheel = make_wheel(tmp_path / "w", "1.0")
    publish(dist, {ENTRY: hashed(wheel)})
    make_wheel(dist, "1.0", content=b"evil = True\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--isolated",
        "-d",
        str(tmp_path / "got"),
    ]
    ran = subprocess.run(
        [*pip, "--index-url", (dist / "simple").as_uri(), "demo-pkg"], capture_output=True, check=False
    )
    assert ran.returncode != 0
    assert b"HASHES" in ran.stderr


def test_current_is_told_by_stat_and_anything_else_is_not(tmp_path: Path, dist: Path) -> None:
    wheels = hashed(make_wheel(tmp_path / "w", "1.0"))
    listing = publish(dist, {ENTRY: wheels})
    assert read_listing(dist) == listing
    assert is_current(dist, listing, ENTRY, names(wheels))
    assert not is_current(dist, listing, ENTRY, dict.fromkeys(names(wheels), "0" * 64))
    assert not is_current(dist, listing, "other", names(wheels))
    served = dist / next(iter(names(wheels)))
    served.write_bytes(served.read_bytes())
    assert not is_current(dist, listing, ENTRY, names(wheels))
    served.unlink()
    assert not is_current(dist, listing, ENTRY, names(wheels))


def test_a_new_wheel_replaces_the_old_one_of_its_entry_only(tmp_path: Path, dist: Path) -> None:
    old = make_wheel(tmp_path / "w", "1.0")
    other = make_wheel(tmp_path / "w", "3.0", name="other")
    publish(dist, {ENTRY: hashed(old), entry_name("other", "x"): hashed(other)})
    stranger = dist / "notes.txt"
    stranger.write_text("mine")
    new = make_wheel(tmp_path / "w", "1.1")
    publish(dist, {ENTRY: hashed(new)})
    assert sorted(path.name for path in dist.glob("*.whl")) == [new.name, other.name]
    assert stranger.exists()
    page = (dist / "simple" / "demo-pkg" / "index.html").read_text()
    assert new.name in page
    assert old.name not in page


def test_what_failed_is_withdrawn_with_its_page(tmp_path: Path, dist: Path) -> None:
    wheel = make_wheel(tmp_path / "w", "1.0")
    publish(dist, {ENTRY: hashed(wheel)})
    publish(dist, {}, [ENTRY])
    assert list(dist.glob("*.whl")) == []
    assert not (dist / "simple" / "demo-pkg").exists()
    assert "demo-pkg" not in (dist / "simple" / "index.html").read_text()


def test_two_pythons_share_the_folder(tmp_path: Path, dist: Path) -> None:
    first, second = make_wheel(tmp_path / "a", "1.0"), make_wheel(tmp_path / "b", "1.0+x")
    publish(dist, {entry_name("demo", "linux-x86_64.cp311"): hashed(first)})
    publish(dist, {entry_name("demo", "linux-x86_64.cp312"): hashed(second)})
    assert len(list(dist.glob("*.whl"))) == 2


def test_a_listing_that_cannot_be_read_counts_as_empty(tmp_path: Path, dist: Path) -> None:
    publish(dist, {ENTRY: hashed(make_wheel(tmp_path / "w", "1.0"))})
    (dist / "sparkbuild.json").write_bytes(b"\xff torn")
    assert read_listing(dist).entries == {}


def test_what_lies_behind_a_link_is_neither_written_nor_removed(tmp_path: Path, dist: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "etc").mkdir(parents=True)
    (victim / "etc" / "precious").write_text("mine")
    dist.mkdir(parents=True)
    (dist / "simple").symlink_to(victim)
    with pytest.raises(UsageError, match="is a link"):
        publish(dist, {ENTRY: hashed(make_wheel(tmp_path / "w", "1.0"))})
    assert [path.name for path in victim.iterdir()] == ["etc"]
    assert (victim / "etc" / "precious").read_text() == "mine"
    assert not list(dist.glob("*.whl"))


def test_folders_in_the_index_that_are_not_ours_stay(tmp_path: Path, dist: Path) -> None:
    (dist / "simple" / "mine").mkdir(parents=True)
    (dist / "simple" / "mine" / "notes").write_text("mine")
    (tmp_path / "other").mkdir()
    (dist / "simple" / "demo-pkg").symlink_to(tmp_path / "other")
    publish(dist, {ENTRY: hashed(make_wheel(tmp_path / "w", "1.0"))})
    (dist / "simple" / "demo-pkg" / "notes").write_text("mine")
    publish(dist, {}, [ENTRY])
    assert (dist / "simple" / "mine" / "notes").read_text() == "mine"
    assert (dist / "simple" / "demo-pkg" / "notes").read_text() == "mine"
    assert list((tmp_path / "other").iterdir()) == []


def test_a_listing_cannot_name_files_elsewhere(tmp_path: Path, dist: Path) -> None:
    outside = tmp_path / "dist" / "outside-1.0-py3-none-any.whl"
    publish(dist, {ENTRY: hashed(make_wheel(tmp_path / "w", "1.0"))})
    outside.write_text("mine")
    text = (dist / "sparkbuild.json").read_text()
    name = next(dist.glob("*.whl")).name
    (dist / "sparkbuild.json").write_text(text.replace(name, f"../{outside.name}"))
    publish(dist, {}, [ENTRY])
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_file_in_the_way(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((UsageError, StoreError)) as caught:
        check_folder(tmp_path / where)
    assert caught.value.hint


def test_two_runs_at_once_both_stay_listed(tmp_path: Path, dist: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    wheels = [make_wheel(tmp_path / f"w{i}", f"{i}.0") for i in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: publish(dist, {f"demo {item[0]}": hashed(item[1])}), enumerate(wheels)))
    assert len(read_listing(dist).entries) == 8
    assert len(list(dist.glob("*.whl"))) == 8


def test_a_local_version_is_quoted_in_links(tmp_path: Path, dist: Path) -> None:
    publish(dist, {ENTRY: hashed(make_wheel(tmp_path / "w", "1.0+cu130"))})
    page = (dist / "simple" / "demo-pkg" / "index.html").read_text()
    assert 'href="../../demo_pkg-1.0%2Bcu130-py3-none-any.whl#sha256=' in page
