"""Tags against what lies in a wheel."""

from __future__ import annotations

import pytest
from packaging.tags import Tag, parse_tag
from solibs import linkage

from orchestrator.audit.dynamic import Linkage
from orchestrator.inspect.tags import (
    check_glibc,
    check_machines,
    check_python,
    check_symbol_versions,
    check_tags,
)

X86, ARM, PPC, CUDA = 62, 183, 21, 190


def tags(*texts: str) -> frozenset[Tag]:
    return frozenset().union(*map(parse_tag, texts))


def needing(*versions: str) -> Linkage:
    return Linkage(X86, (), None, (), frozenset(), frozenset(), frozenset(), frozenset(versions))


@pytest.mark.parametrize(
    ("outside", "inside", "level"),
    [
        ("cp38-abi3-manylinux_2_28_aarch64", ["cp38-abi3-manylinux_2_28_aarch64"], None),
        ("cp38-abi3-manylinux_2_28_aarch64", ["cp38-abi3-linux_aarch64"], "warning"),
        ("py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64", ["py3-none-manylinux2014_x86_64"], "warning"),
        ("py2.py3-none-any", ["py2-none-any", "py3-none-any"], None),
        ("py2.py3-none-any", ["py3-none-any"], "error"),
        ("cp312-cp312-linux_aarch64", ["cp311-cp311-linux_aarch64"], "error"),
        ("cp312-abi3-linux_aarch64", ["cp312-cp312-linux_aarch64"], "error"),
        ("cp312-cp312-linux_aarch64", ["cp312-cp312-linux_x86_64"], "error"),
        ("py3-none-any", ["py3-none-linux_x86_64"], "error"),
        ("py3-none-any", [], "error"),
        ("py3-none-any", ["py3-none"], "error"),
    ],
)
def test_tag_lines_against_the_file_name(outside: str, inside: list[str], level: str | None) -> None:
    found = check_tags(tags(outside), inside)
    assert [finding.level for finding in found] == ([level] if level else [])
    assert all(finding.code == "tag-mismatch" for finding in found)


def test_the_message_shows_both_sides() -> None:
    (finding,) = check_tags(tags("cp38-abi3-manylinux_2_28_aarch64"), ["cp38-abi3-linux_aarch64"])
    assert finding.text == (
        "WHEEL says cp38-abi3-linux_aarch64, the file name cp38-abi3-manylinux_2_28_aarch64"
    )


@pytest.mark.parametrize(
    "lines", [["-".join([".".join(map(chr, range(256, 316)))] * 3)], ["py3-none-any"] * 9999]
)
def test_sets_of_tags_cannot_take_all_time(lines: list[str]) -> None:
    (finding,) = check_tags(tags("py3-none-any"), lines)
    assert (finding.level, finding.text) == ("error", "WHEEL has more tags than are read")


def test_machines_against_the_platform() -> None:
    machines = {"a.so": ARM, "b.so": ARM, "k.cubin": CUDA}
    assert check_machines(tags("cp312-cp312-manylinux_2_28_aarch64"), machines) == []
    (finding,) = check_machines(tags("cp312-cp312-manylinux_2_28_x86_64"), machines)
    assert (finding.level, finding.code) == ("error", "wrong-machine")
    assert finding.text == "a.so and 1 more are for aarch64, but the wheel says x86_64"
    both = tags("py3-none-manylinux_2_28_x86_64", "py3-none-manylinux_2_28_aarch64")
    assert check_machines(both, {"a.so": ARM, "b.so": X86}) == []
    two = check_machines(tags("py3-none-linux_x86_64"), {"a.so": ARM, "b.so": PPC, "c.so": X86})
    assert [finding.text.split(",")[0] for finding in two] == ["b.so is for ppc64le", "a.so is for aarch64"]


def test_any_platform_may_hold_libraries_but_no_extension_module() -> None:
    anywhere = tags("py3-none-any")
    assert check_machines(anywhere, {"p/attach_linux_amd64.so": X86, "p/attach_linux_arm64.so": ARM}) == []
    for name in ("p/_C.abi3.so", "p/_C.cpython-312-x86_64-linux-gnu.so"):
        (finding,) = check_machines(anywhere, {name: X86})
        assert (finding.level, finding.code) == ("error", "wrong-machine")


def test_platforms_that_are_not_known_are_not_judged() -> None:
    assert check_machines(tags("py3-none-macosx_11_0_arm64"), {"a.so": X86}) == []
    assert check_machines(tags("py3-none-linux_s390x"), {"a.so": X86}) == []


def test_an_extension_module_that_one_python_imports() -> None:
    """As in sglang-kernel 0.4.10: cp310-abi3, with a module built for CPython 3.10."""
    module = "sgl_kernel/infllm_ops.cpython-310-aarch64-linux-gnu.so"
    (finding,) = check_python(tags("cp310-abi3-manylinux2014_aarch64"), [module, "sgl_kernel/a.abi3.so"])
    assert (finding.level, finding.code) == ("warning", "wrong-python")
    assert finding.text == f"{module} is only for cp310, but the wheel says cp310-abi3"
    assert check_python(tags("cp310-cp310-linux_aarch64"), [module]) == []
    assert check_python(tags("cp313-cp313t-linux_x86_64"), ["a.cpython-313t-x86_64-linux-gnu.so"]) == []
    assert check_python(tags("py3-none-any"), ["a.py", "libx.so", "b.abi3.so"]) == []


@pytest.mark.parametrize(
    ("platform", "versions", "told"),
    [
        ("manylinux_2_28_x86_64", ["GLIBC_2.28", "GLIBC_2.4", "GLIBCXX_3.4.30"], None),
        ("manylinux_2_28_x86_64", ["GLIBC_2.34", "GLIBC_2.4"], "glibc 2.34, but the wheel says that 2.28"),
        ("manylinux2014_x86_64", ["GLIBC_2.2.5", "GLIBC_2.17"], None),
        ("manylinux2014_x86_64", ["GLIBC_2.18"], "glibc 2.18, but the wheel says that 2.17"),
        ("manylinux1_x86_64.manylinux_2_28_x86_64", ["GLIBC_2.6"], "says that 2.5"),
        ("manylinux_2_35_x86_64", ["GLIBC_ABI_DT_RELR"], "glibc 2.36"),
        ("manylinux_2_28_x86_64", ["GLIBC_PRIVATE"], None),
        ("linux_x86_64", ["GLIBC_2.99"], None),
        ("musllinux_1_2_x86_64", ["GLIBC_2.99"], None),
    ],
)
def test_glibc_against_the_policy(platform: str, versions: list[str], told: str | None) -> None:
    found = check_glibc(tags(f"cp312-cp312-{platform}"), {"p/a.so": needing(*versions), "b.so": linkage()})
    if told is None:
        assert found == {}
    else:
        (finding,) = found["p/a.so"]
        assert (finding.level, finding.code) == ("error", "glibc-newer-than-tag")
        assert told in finding.text


@pytest.mark.parametrize(
    ("platform", "versions", "told"),
    [
        ("manylinux_2_28_aarch64", ["GLIBCXX_3.4.21", "CXXABI_1.3.9", "GLIBC_2.28"], None),
        ("manylinux2014_aarch64", ["GLIBCXX_3.4.21"], "GLIBCXX_3.4.21"),
        ("manylinux2014_x86_64.manylinux_2_28_x86_64", ["CXXABI_1.3.9"], "CXXABI_1.3.9"),
        ("manylinux_2_99_x86_64", ["GLIBCXX_9.9"], None),
        ("manylinux_2_28_m68k", ["GLIBCXX_9.9"], None),
        ("linux_x86_64", ["GLIBCXX_9.9"], None),
    ],
)
def test_libstdcxx_against_auditwheels_tables(platform: str, versions: list[str], told: str | None) -> None:
    found = check_symbol_versions(tags(f"cp312-cp312-{platform}"), {"p/a.so": needing(*versions)})
    assert [finding.code for finding in found] == ([] if told is None else ["newer-than-tag"])
    assert told is None or told in found[0].text
