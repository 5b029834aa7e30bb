"""Wheels: streamed, whole or damaged."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from devicefiles import container, data, entry

from orchestrator.audit.policy import Expectation
from orchestrator.audit.question import Question
from orchestrator.errors import SpecError
from orchestrator.inspect.wheel import audit_wheels
from orchestrator.model.archvalues import Device

if TYPE_CHECKING:
    from orchestrator.audit.report import SpecReport

SPARK = Device(12, 1)
MEMBERS = {
    "pkg/__init__.py": b"from . import native\n",
    "pkg/native.so": data("native.so"),
    "pkg/deep/er/family.so": data("family.so"),
    "pkg/libhost.so": data("magic.so"),
    "x-1.0.dist-info/RECORD": b"pkg/__init__.py,,\n",
}


class Unseekable(io.BytesIO):
    """What makes `zipfile` write data descriptors: sizes behind the bytes instead of before them."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


def packed(
    members: dict[str, bytes] = MEMBERS,
    *,
    method: int = zipfile.ZIP_DEFLATED,
    zip64: bool = False,
    target: io.BytesIO | None = None,
) -> bytes:
    target = target or io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with archive.open(info, "w", force_zip64=zip64) as member:
                member.write(content)
    return target.getvalue()


def audited(folder: Path, content: bytes, policy: list[Expectation] | None = None) -> SpecReport:
    path = folder / "x-1.0-py3-none-any.whl"
    path.write_bytes(content)
    question = Question(devices=(SPARK,), policy=None if policy is None else tuple(policy))
    return audit_wheels([path], question, spec=path.name)


def verdicts(report: SpecReport) -> dict[str, str]:
    return {module.path: module.verdict for module in report.devices[0].modules}


def codes(report: SpecReport) -> set[str]:
    device = report.devices[0]
    found = {finding.code for module in device.modules for finding in module.findings}
    # the archives of these tests hold what is looked at, and no metadata
    return (found | {finding.code for finding in device.findings}) - {"no-metadata"}


WHOLE = {"pkg/native.so": "native", "pkg/deep/er/family.so": "native", "pkg/libhost.so": "host"}


@pytest.mark.parametrize(
    "content",
    [
        packed(),
        packed(method=zipfile.ZIP_STORED),
        packed(zip64=True),
        packed(target=Unseekable()),
        packed(method=zipfile.ZIP_STORED, target=Unseekable()),
        b"something in front" + packed(),
    ],
    ids=["deflated", "stored", "zip64", "descriptors", "stored-descriptors", "prefix"],
)
def test_every_way_to_pack(tmp_path: Path, content: bytes) -> None:
    report = audited(tmp_path, content)
    assert verdicts(report) == WHOLE
    assert (report.verdict, report.spec, codes(report)) == ("pass", "x-1.0-py3-none-any.whl", set())


def test_the_unusual_ways_are_what_they_say() -> None:
    flags, method = struct.unpack_from("<HH", packed(target=Unseekable()), 6)
    assert (flags & 8, method) == (8, zipfile.ZIP_DEFLATED)
    (size,) = struct.unpack_from("<I", packed(zip64=True), 18)
    assert size == 0xFFFFFFFF


def test_policy_and_data_folder(tmp_path: Path) -> None:
    members = {"x-1.0.data/platlib/pkg/native.so": data("native.so"), "x-1.0.dist-info/RECORD": b""}
    policy = [Expectation("pkg/*.so", "native"), Expectation("x-1.0.dist-info/RECORD", "host")]
    assert audited(tmp_path, packed(members), policy).verdict == "pass"
    assert codes(audited(tmp_path, packed(members), policy[1:])) == {"unlisted-module"}


def test_bare_cubins(tmp_path: Path) -> None:
    members = {f"k/{n}.cubin": data(f"{n}.cubin") for n in ("121a", "121f", "120f")}
    report = audited(tmp_path, packed(members))
    assert dict(report.bare_cubins) == {"sm_120f": 1, "sm_121a": 1, "sm_121f": 1}
    assert report.verdict == "pass"
    members["k/a.cubin"] = data("120a.cubin")
    assert audited(tmp_path, packed(members)).verdict == "fail"


@pytest.mark.parametrize("content", [b"", b"not a zip", packed()[:-30], packed()[: len(packed()) // 2]])
def test_no_zip(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        audited(tmp_path, content)
    assert caught.value.exit_code == 3
    assert caught.value.hint
    assert caught.value.where


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.whl", tmp_path):
        with pytest.raises(SpecError) as caught:
            audit_wheels([path], Question(devices=(SPARK,)), spec="gone")
        assert caught.value.where == str(path)


def central(content: bytes, name: str) -> int:
    """Return where the central directory's entry of a member begins."""
    at = content.rindex(name.encode())
    return content.rindex(b"PK\x01\x02", 0, at)


def patched(content: bytes, at: int, form: str, value: int) -> bytes:
    found = bytearray(content)
    struct.pack_into(form, found, at, value)
    return bytes(found)


@pytest.mark.parametrize(
    ("field", "form", "value", "said"),
    [
        (8, "<H", 1, "encrypted"),
        (10, "<H", zipfile.ZIP_BZIP2, "compression method 12"),
        (16, "<I", 12345, "checksum"),
        (24, "<I", 20_000, "more bytes than declared"),
        (24, "<I", 1 << 30, "less than declared"),
        (20, "<I", 1000, "less than declared"),
    ],
)
def test_a_member_that_lies(tmp_path: Path, field: int, form: str, value: int, said: str) -> None:
    content = packed()
    report = audited(tmp_path, patched(content, central(content, "pkg/native.so") + field, form, value))
    assert report.verdict == "fail"
    (module,) = [module for module in report.devices[0].modules if module.path == "pkg/native.so"]
    assert any(said in finding.text for finding in module.findings if finding.code == "damaged-member")


def test_the_checksum_is_looked_at_even_when_a_member_ends_with_a_container(tmp_path: Path) -> None:
    content = packed({"a.fatbin": container(entry(2, 121, payload=bytes(100_000)))})
    assert codes(audited(tmp_path, content)) == set()
    found = patched(content, central(content, "a.fatbin") + 16, "<I", 12345)
    assert codes(audited(tmp_path, found)) == {"damaged-member"}


def test_a_local_header_that_is_none(tmp_path: Path) -> None:
    content = bytearray(packed())
    at = content.index(b"pkg/native.so") - 30
    content[at : at + 2] = b"XX"
    assert codes(audited(tmp_path, bytes(content))) == {"damaged-member"}


@pytest.mark.parametrize("offset", [0xFFFFFFF0, 7])
def test_a_local_header_that_lies_elsewhere(tmp_path: Path, offset: int) -> None:
    content = packed()
    report = audited(tmp_path, patched(content, central(content, "pkg/native.so") + 42, "<I", offset))
    assert "damaged-member" in codes(report)


def test_a_member_without_a_name(tmp_path: Path) -> None:
    content = bytearray(packed())
    at = central(bytes(content), "pkg/native.so")
    (size,) = struct.unpack_from("<H", content, at + 28)
    struct.pack_into("<HHH", content, at + 28, 0, 0, size)  # the name becomes a comment
    assert verdicts(audited(tmp_path, bytes(content)))[""] == "native"


def test_bytes_that_cannot_be_inflated(tmp_path: Path) -> None:
    content = bytearray(packed())
    at = content.index(b"pkg/native.so") + 300
    content[at : at + 64] = b"\xff" * 64
    report = audited(tmp_path, bytes(content))
    assert "damaged-member" in codes(report)
    assert report.verdict == "fail"


def test_names_twice_and_bytes_shared(tmp_path: Path) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a.so", data("native.so"))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.so", data("wrong.so"))
    assert "duplicate-name" in codes(audited(tmp_path, target.getvalue()))
    content = packed()
    first = struct.unpack_from("<I", content, central(content, "pkg/native.so") + 42)[0]
    shared = patched(content, central(content, "pkg/deep/er/family.so") + 42, "<I", first)
    assert "overlap" in codes(audited(tmp_path, shared))


def test_cut_anywhere(tmp_path: Path) -> None:
    content = packed()
    for length in range(0, len(content), 997):
        with pytest.raises(SpecError):
            audited(tmp_path, content[:length])


def test_damage_anywhere_is_a_finding_or_an_error(tmp_path: Path) -> None:
    generator = random.Random(121)
    content = packed()
    quiet = 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(damaged))] ^= generator.randint(1, 255)
        try:
            report = audited(tmp_path, bytes(damaged))
        except SpecError:
            continue
        quiet += report.verdict == "pass"
    # dates, names and the like can change without harm; machine code cannot
    assert quiet < 80


def test_a_large_member_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "big-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("big.so", "w") as member:
        member.write(data("native.so"))
        for _ in range(200):
            member.write(bytes(1 << 20))
    code = (
        "import sys, pathlib;"
        "from orchestrator.audit.question import Question;"
        "from orchestrator.inspect.wheel import audit_wheels;"
        "from orchestrator.model.archvalues import Device;"
        "report = audit_wheels([pathlib.Path(sys.argv[1])], Question(devices=(Device(12, 1),)), spec='x');"
        # Not ru_maxrss: it starts with what the parent had when it forked.
        "status = pathlib.Path('/proc/self/status').read_text();"
        "peak = next(line.split()[1] for line in status.splitlines() if line.startswith('VmHWM'));"
        "print(report.devices[0].modules[0].counts.exact, peak)"
    )
    import orchestrator

    environment = {"PYTHONPATH": str(Path(next(iter(orchestrator.__path__))).parent)}
    shown = subprocess.run(
        [sys.executable, "-c", code, path], check=True, capture_output=True, text=True, env=environment
    )
    exact, peak_kib = map(int, shown.stdout.split())
    assert exact == 2
    assert peak_kib < 80 << 10


def test_what_is_called_a_library_and_is_none(tmp_path: Path) -> None:
    report = audited(tmp_path, packed({"a.so": b"", "b.so.1": b"text", "c.so": data("native.so")}))
    assert {"not-a-library"} == codes(report)
    assert report.verdict == "pass"
