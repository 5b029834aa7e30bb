"""What is installed, by real metadata in real folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from devicefiles import data
from powers import as_anybody
from venvs import Venv
from wheelhouse import EXECUTABLE

from orchestrator.inspect.environment import Environment
from orchestrator.inspect.installed import NOBODY, Installed, distributions

SO = data("native.so")


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """A folder like that of an environment; nothing is run here."""
    root = Venv(tmp_path / "venv")
    root.site.mkdir(parents=True)
    return root


def seen(*roots: Path) -> dict[str, Installed]:
    found = distributions(Environment(Path(sys.executable), "3.12", roots))
    assert len({str(one) for one in found}) == len(found)
    return {one.name: one for one in found}


def codes(one: Installed) -> list[str]:
    return [finding.code for finding in one.findings]


def test_files_that_can_hold_device_code_go_by_name(venv: Venv) -> None:
    wanted = {
        "a/_C.so": SO,
        "a/libx.so.13.0": SO,
        "a/k.cubin": b"",
        "a/l.a": b"",
        "a/m.o": b"",
        "a/f.fatbin": b"",
    }
    tool = {"a/bin/tool": (SO, EXECUTABLE)}
    venv.install(
        "a", {**wanted, **tool, "a/b.py": "", "a/so": "", "a/c.sow": "", "a/notes": "x", "a/x.json": ""}
    )
    venv.install("Pure_One", {"pure.py": ""})
    found = seen(venv.site)
    assert list(found) == ["a"]
    assert found["a"] == Installed("a", "1.0", venv.site, tuple(sorted([*wanted, *tool])))
    assert str(found["a"]) == "a 1.0"


def test_files_outside_of_the_folder_belong_to_their_distribution(venv: Venv) -> None:
    tool = venv.root / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_bytes(SO)
    tool.chmod(0o755)
    info = venv.install("a", {"a.py": ""})
    with (info / "RECORD").open("a") as record:
        record.write("../../../bin/tool,,\n")
    assert seen(venv.site)["a"].files == ("../../../bin/tool",)


def test_what_no_record_lists_is_nobodys(venv: Venv, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "far.so").write_bytes(SO)
    venv.install("a", {"a/_C.so": SO})
    (venv.site / "a" / "stray.so").write_bytes(SO)
    (venv.site / "~a" / "lib").mkdir(parents=True)  # what pip could not remove
    (venv.site / "~a" / "lib" / "old.so").write_bytes(SO)
    (venv.site / "loop").symlink_to(".")
    found = seen(venv.site, other)
    assert found["a"].files == ("a/_C.so",)
    assert list(found) == ["a", NOBODY]
    assert found[NOBODY] == Installed(
        NOBODY, "", venv.site, tuple(sorted([str(other / "far.so"), "a/stray.so"]))
    )
    assert str(found[NOBODY]) == NOBODY


@pytest.mark.parametrize("damage", [None, b"\xff\xfe", b'"a/_C.so\0,,\n'])
def test_a_lost_or_damaged_record_is_told(venv: Venv, damage: bytes | None) -> None:
    info = venv.install("a", {"a/_C.so": SO})
    (info / "RECORD").unlink()
    if damage is not None:
        (info / "RECORD").write_bytes(damage)
    found = seen(venv.site)
    assert list(found) == [NOBODY]
    assert found[NOBODY].files == ("a/_C.so",)
    if damage is None or b"\xff" in damage:
        (told,) = found[NOBODY].findings
        assert (told.level, told.code, told.text.endswith(": a")) == ("warning", "no-record", True)


def test_lost_metadata_leaves_the_folders_name(venv: Venv) -> None:
    info = venv.install("a-b", {"a/_C.so": SO}, version="2.0+cu130")
    (info / "METADATA").unlink()
    assert list(map(str, seen(venv.site).values())) == ["a_b 2.0+cu130"]


def test_files_that_are_gone_are_told(venv: Venv) -> None:
    venv.install("a", {"a/_C.so": SO, "a/_D.so": SO})
    (venv.site / "a" / "_D.so").unlink()
    found = seen(venv.site)["a"]
    assert found.files == ("a/_C.so",)
    assert [(finding.code, "a/_D.so" in finding.text) for finding in found.findings] == [
        ("missing-file", True)
    ]


def test_one_that_lost_all_its_binaries_is_not_passed_over(venv: Venv) -> None:
    venv.install("a", {"a/_C.so": SO, "a.py": ""})
    (venv.site / "a" / "_C.so").unlink()
    found = seen(venv.site)["a"]
    assert (found.files, codes(found), found.at_fault) == ((), ["missing-file"], True)


UNREADABLE = """
import sys
from pathlib import Path
from orchestrator.inspect.environment import Environment
from orchestrator.inspect.installed import distributions
for one in distributions(Environment(Path(sys.executable), "3.12", (Path(sys.argv[1]),))):
    print(one, [(finding.level, finding.code) for finding in one.findings])
"""


def test_a_folder_that_cannot_be_read_is_told(venv: Venv) -> None:
    (venv.site / "closed").mkdir(mode=0)
    assert as_anybody(UNREADABLE, str(venv.site)).strip() == f"{NOBODY} [('error', 'unreadable')]"


def test_files_that_are_links_to_a_cache_are_followed(venv: Venv, tmp_path: Path) -> None:
    venv.install("a", {"a/_C.so": SO})
    (venv.site / "a" / "_C.so").rename(tmp_path / "cached.so")
    (venv.site / "a" / "_C.so").symlink_to(tmp_path / "cached.so")
    found = seen(venv.site)
    assert list(found) == ["a"]
    assert found["a"].files == ("a/_C.so",)


def test_of_two_copies_the_imported_one_counts(venv: Venv, tmp_path: Path) -> None:
    system = Venv(tmp_path / "system")
    system.site.mkdir(parents=True)
    system.install("flash-attn", {"flash_attn/_C.so": SO}, version="1.0")
    venv.install("Flash_Attn", {"flash_attn/_C.so": SO}, version="2.0")
    (found,) = seen(venv.site, system.site).values()
    assert (str(found), found.root) == ("Flash_Attn 2.0", venv.site)
    (told,) = found.findings
    assert (told.code, "flash-attn 1.0" in told.text, "not imported" in told.text) == (
        "installed-twice",
        True,
        True,
    )


def test_two_copies_without_binaries_are_nothing_to_tell(venv: Venv, tmp_path: Path) -> None:
    system = Venv(tmp_path / "system")
    system.site.mkdir(parents=True)
    system.install("pure", {"pure.py": ""})
    venv.install("pure", {"pure.py": ""}, version="2.0")
    assert seen(venv.site, system.site) == {}


def test_two_versions_in_one_folder_share_its_files(venv: Venv) -> None:
    venv.install("a", {"a/old.so": SO}, version="1.0")
    venv.install("a", {"a/new.so": SO}, version="2.0")
    (found,) = seen(venv.site).values()
    assert found.files == ("a/new.so", "a/old.so")
    assert codes(found) == ["installed-twice"]
    (venv.site / "a-1.0.dist-info").rename(venv.site / "~-1.0.dist-info")
    assert list(seen(venv.site)) == ["a", NOBODY]


def test_a_distribution_used_from_its_sources(venv: Venv, tmp_path: Path) -> None:
    sources = tmp_path / "my sources"
    (sources / "a").mkdir(parents=True)
    (sources / "a" / "_C.so").write_bytes(SO)
    info = venv.install("a", {"__editable__.a.pth": str(sources)})
    (info / "direct_url.json").write_text(
        json.dumps({"url": sources.as_uri(), "dir_info": {"editable": True}})
    )
    (found,) = seen(venv.site, sources).values()
    assert (found.root, found.files, codes(found)) == (sources, ("a/_C.so",), ["editable"])
    for odd in ("[]", "{", json.dumps({"url": 1, "dir_info": {"editable": True}}), '{"dir_info": null}'):
        (info / "direct_url.json").write_text(odd)
        assert list(seen(venv.site)) == []


def test_eggs_metadata_beside_a_dist_info_is_no_second_copy(venv: Venv) -> None:
    venv.install("a", {"a/_C.so": SO})
    (venv.site / "a-1.0.egg-info").write_text("Name: a\nVersion: 1.0\n")
    assert codes(seen(venv.site)["a"]) == []


def test_a_hostile_record_reads_nothing_but_files(venv: Venv) -> None:
    info = venv.install("a", {"a/_C.so": SO})
    rows = [
        "/dev/zero.so,,",
        "../" * 90 + "etc,,",
        f"{'x' * 5000}.so,,",
        "a/\0.so,,",
        ",,",
        "a,b,c,d,e",
        "a.so/b.so,,",
    ]
    with (info / "RECORD").open("a") as record:
        record.write("\n".join(rows))
    assert seen(venv.site)["a"].files == ("a/_C.so",)
