"""From files to recipes, stacks and locks: every mistake is told by place, field, found, expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import LockError, RecipeError
from orchestrator.model.lock import Lock, LockedComponent, LockedFile, LockedSource, lock_bytes
from orchestrator.model.reader import load_lock, load_recipe, load_stack
from orchestrator.model.recipe import BuildEstimate, KernelException, PatchRef, Recipe, UnitException, When

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.model.stack import Stack

GOOD = """\
schema: sparkbuild.recipe/1
name: vec
summary: A vector
sources:
  main: {sdist: vec}
  cutlass: {git: "https://example.org/cutlass", env: CUTLASS_DIR, when: {version: ">=0.33"}}
patches:
  - 0001-one
  - {name: 0002-two, source: cutlass, when: {arch: "9.0a", platform: linux-aarch64}}
needs: {build: [pytorch], run: [pytorch, numpy]}
applies: ["9.0a", "10.0f"]
arch:
  env: {TORCH_CUDA_ARCH_LIST: torch-extension}
build:
  directory: hopper
  requires: [ninja, "setuptools>=77.0.3,<81", "tomli; python_version < '3.11'"]
  env: {FORCE: yes, LEVEL: 2.10, EMPTY: ""}
  commands:
    - ["{python}", setup.py, -o, "{out}"]
  memory_per_unit: 4 GiB
  variants:
    - when: {arch: ["9.0a", "10.0f"]}
      env: {HOPPER: "1"}
  elsewhere:
    - {source: "marlin/sm89_*.cu", reason: always compiled, when: {version: "<0.40"}}
modules:
  - {match: "vec*.so", expect: native}
  - {match: "old.so", expect: jit, reason: old kernels only}
  - match: "guarded.so"
    expect: "native"
    except:
      - {kernels: "*enable_sm89*", reason: guarded to sm_89, when: {version: ">=0.32"}}
"""


def write(tmp_path: Path, text: str, name: str = "vec") -> Path:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def recipe(tmp_path: Path, text: str) -> Recipe:
    return load_recipe(write(tmp_path, text))


def mistakes(tmp_path: Path, old: str, new: str) -> RecipeError:
    """Return what is said when `old` in the good recipe is replaced."""
    assert GOOD.count(old) == 1, f"{old!r} must stand once in the good recipe"
    with pytest.raises(RecipeError) as caught:
        recipe(tmp_path, GOOD.replace(old, new))
    return caught.value


def test_a_full_recipe(tmp_path: Path) -> None:
    found = recipe(tmp_path, GOOD)
    assert found.wheel_name == "vec"
    assert found.patches[0] == PatchRef(name="0001-one")
    assert found.patches[1].source == "cutlass"
    assert found.patches[1].when is not None
    assert found.patches[1].when.arch == ("9.0a",)
    assert found.build is not None
    assert found.build.memory_per_unit == 4 * 2**30
    assert found.build.env == {"FORCE": "yes", "LEVEL": "2.10", "EMPTY": ""}
    assert found.build.commands == (("{python}", "setup.py", "-o", "{out}"),)
    assert found.build.variants[0].when.arch == ("9.0a", "10.0f")
    assert found.build.elsewhere == (
        UnitException(source="marlin/sm89_*.cu", reason="always compiled", when=When(version="<0.40")),
    )
    assert found.needs.run == ("pytorch", "numpy")
    assert found.modules[0].exceptions == ()
    (exempt,) = found.modules[2].exceptions
    assert exempt == KernelException(
        kernels="*enable_sm89*", reason="guarded to sm_89", when=When(version=">=0.32")
    )


def test_the_least_recipe(tmp_path: Path) -> None:
    found = recipe(tmp_path, "schema: sparkbuild.recipe/1\nname: vec\nsummary: s\n")
    assert found.build is None
    assert found.sources == {}


@pytest.mark.parametrize(
    ("written", "size"), [("4 GiB", 4 << 30), ("1.5 MiB", 3 << 19), ("4096", 4096), ("512KiB", 512 << 10)]
)
def test_sizes(tmp_path: Path, written: str, size: int) -> None:
    found = recipe(tmp_path, GOOD.replace("4 GiB", written))
    assert found.build is not None
    assert found.build.memory_per_unit == size


@pytest.mark.parametrize(
    ("written", "estimate"),
    [
        ("{cpu: 5h30m, disk: 12 GiB}", BuildEstimate(cpu=19800.0, disk=12 << 30)),
        ("{cpu: 90m}", BuildEstimate(cpu=5400.0)),
        ("{disk: 4096}", BuildEstimate(disk=4096)),
        ("{}", BuildEstimate()),
    ],
)
def test_estimates(tmp_path: Path, written: str, estimate: BuildEstimate) -> None:
    found = recipe(tmp_path, GOOD.replace("4 GiB", f"4 GiB\n  estimate: {written}"))
    assert found.build is not None
    assert found.build.estimate == estimate


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        (
            "summary: A vector",
            "sumary: A vector",
            "3:1",
            ["sumary: found an unknown field", "did you mean summary?"],
        ),
        ("needs: {", "require: {", "10:1", ["require", "unknown field"]),
        ("{sdist: vec}", "{sdits: vec}", "5:10", ["sources.main.sdits", "did you mean sdist?"]),
        ("{sdist: vec}", "{sdist: vec, git: g}", "5:9", ["sdist and git", "exactly one of"]),
        ("{sdist: vec}", "{env: VEC}", "5:9", ["none of them", "exactly one of"]),
        ("{sdist: vec}", "vec", "5:9", ["sources.main: found 'vec', expected a mapping"]),
        ("{sdist: vec}", "{sdist: [vec]}", "5:17", ["sources.main.sdist: found a list, expected text"]),
        ("{sdist: vec}", "{sdist: }", "5:17", ["sources.main.sdist: found nothing, expected text"]),
        ("{sdist: vec}", "{sdist: vec, submodules: false}", "5:22", ["submodules without `git`"]),
        ("{sdist: vec}", "{local: ., submodules: no}", "5:32", ["found 'no', expected true or false"]),
        ("{sdist: vec}", "{sdist: vec, into: x}", "5:22", ["`into` for main"]),
        ("{sdist: vec}", '{archive: "https://a/{version}-{commit}.tgz"}', "5:19", ["{commit}", "{version}"]),
        ("{sdist: vec}", "{archive: vec.tgz}", "5:19", ["an address"]),
        ("main: {sdist: vec}", "maine: {sdist: vec}", "8:5", ["patches[0].source: found 'main'", "maine"]),
        ("name: vec", "name: Vec", "2:7", ["name: found 'Vec', expected lower-case"]),
        ("name: vec", "name: other", "2:7", ["found 'other', expected 'vec', as the file is called"]),
        ("sparkbuild.recipe/1", "sparkbuild.recipe/2", "1:9", ["expected sparkbuild.recipe/1"]),
        ("env: CUTLASS_DIR", "env: CUTLASS-DIR", "6:54", ["sources.cutlass.env", "environment variable"]),
        ('version: ">=0.33"', 'version: "about 3"', "6:83", ["sources.cutlass.when.version", "specifiers"]),
        ('{version: ">=0.33"}', "{}", "6:73", ["no condition"]),
        ("- 0001-one", "- 0001-one.patch", "8:5", ["without `.patch`"]),
        ("- 0001-one", "- 0002-two", "9:5", ["'0002-two' a second time"]),
        ("source: cutlass", "source: cutlas", "9:30", ["did you mean cutlass?"]),
        (
            "platform: linux-aarch64",
            "platform: linux-arm",
            "9:70",
            ["a platform (linux-x86_64, linux-aarch64)"],
        ),
        ("run: [pytorch, numpy]", "run: [pytorch, vec]", "10:42", ["'vec' itself"]),
        ("run: [pytorch, numpy]", "run: [pytorch, pytorch]", "10:42", ["a second time"]),
        ("run: [pytorch, numpy]", "run: pytorch", "10:32", ["needs.run: found 'pytorch', expected a list"]),
        ('applies: ["9.0a", "10.0f"]', 'applies: ["9.0a", "10.0q"]', "11:19", ["applies[1]", "10.0q"]),
        ('applies: ["9.0a", "10.0f"]', "applies: [sm_90a]", "11:11", ["its normal form is 9.0a"]),
        ("torch-extension", "torch-extensions", "13:31", ["did you mean torch-extension?"]),
        ("directory: hopper", "directory: ../hopper", "15:14", ["a relative path that stays inside"]),
        ("requires: [ninja,", "requires: [ninja>,", "16:14", ["build.requires[0]", "'ninja>'"]),
        ("requires: [ninja,", 'requires: ["a @ https://x/a.whl",', "16:14", ["an address"]),
        ("{FORCE: yes,", "{TORCH_CUDA_ARCH_LIST: yes,", "17:9", ["here and in arch.env"]),
        ("{FORCE: yes,", "{1FORCE: yes,", "17:9", ["the name of an environment variable"]),
        ('"{out}"', '"{output}"', "19:34", ["{output}", "{out}"]),
        ('    - ["{python}", setup.py, -o, "{out}"]', "    - []", "19:7", ["an empty list"]),
        ("4 GiB", "4 GB", "20:20", ["build.memory_per_unit: found '4 GB', expected a size"]),
        ("4 GiB", "0", "20:20", ["a size"]),
        (
            "4 GiB",
            "1\n  estimate: {cpu: 9}",
            "21:19",
            ["build.estimate.cpu: found '9', expected a time such"],
        ),
        ("4 GiB", "1\n  estimate: {cpu: 0h}", "21:19", ["found '0h', expected a time"]),
        ("4 GiB", "1\n  estimate: {cpu: [9h]}", "21:19", ["found a list, expected a time"]),
        ("4 GiB", "1\n  estimate: {disk: 12}\n  estimat: 1", "22:3", ["did you mean estimate?"]),
        ("4 GiB", "1\n  estimate: {disk: 12 GB}", "21:20", ["build.estimate.disk", "a size"]),
        ("4 GiB", "1\n  estimate: {time: 9h}", "21:14", ["build.estimate.time", "one of cpu, disk"]),
        ("  elsewhere:", "  elsewere:", "24:3", ["build.elsewere", "did you mean elsewhere?"]),
        ("{source: ", "{sources: ", "25:8", ["build.elsewhere[0].sources", "did you mean source?"]),
        (", reason: always compiled", "", "25:7", ["build.elsewhere[0].reason: found no such field"]),
        ("always compiled", '" "', "25:44", ["elsewhere[0].reason: found ' '", "why these sources"]),
        ('"marlin/sm89_*.cu"', '"*.cu"', "25:16", ["found '*.cu'", "excuses every source"]),
        ('"marlin/sm89_*.cu"', '"**/?*.ptx"', "25:16", ["excuses every source"]),
        ('"marlin/sm89_*.cu"', '"../x.cu"', "25:16", ["elsewhere[0].source", "stays inside"]),
        ('"marlin/sm89_*.cu"', '"a[z-b].cu"', "25:16", ["elsewhere[0].source", "a glob whose sets"]),
        ('{version: "<0.40"}', "{}", "25:67", ["build.elsewhere[0].when: found no condition"]),
        ("expect: native", "expect: nativ", "27:32", ["one of host, jit, native", "did you mean native?"]),
        (", reason: old kernels only", "", "28:5", ["modules[1].reason: found no reason", "exception"]),
        ("    except:", "    exept:", "31:5", ["modules[2].exept", "unknown field", "did you mean except?"]),
        ("    except:", "    exceptions:", "31:5", ["modules[2].exceptions: found an unknown field"]),
        ("{kernels:", "{kernel:", "32:10", ["modules[2].except[0].kernel", "did you mean kernels?"]),
        (", reason: guarded to sm_89", "", "32:9", ["modules[2].except[0].reason: found no such field"]),
        ("guarded to sm_89", '""', "32:44", ["except[0].reason: found nothing, expected text"]),
        ("guarded to sm_89", '" "', "32:44", ["except[0].reason: found ' '", "why these kernels"]),
        ('"*enable_sm89*"', '""', "32:19", ["except[0].kernels: found nothing, expected text"]),
        ('"*enable_sm89*"', '"*?"', "32:19", ["except[0].kernels: found '*?'", "excuses every kernel"]),
        ('"*enable_sm89*"', '"a[z-b]"', "32:19", ["except[0].kernels", "a glob whose sets"]),
        (
            '{version: ">=0.32"}',
            "{}",
            "32:68",
            ["modules[2].except[0].when: found no condition"],
        ),
        (
            'expect: "native"',
            "expect: host",
            "31:5",
            ["modules[2].except: found exceptions from `expect: host`", "native or jit only"],
        ),
    ],
)
def test_each_mistake_is_placed_and_told(
    tmp_path: Path, old: str, new: str, place: str, words: list[str]
) -> None:
    error = mistakes(tmp_path, old, new)
    told = [
        f"{error.where}: {line}" if index == 0 else line
        for index, line in enumerate(error.message.split("\n"))
    ]
    for word in words:
        assert any(f"vec.yaml:{place}: " in line and word in line for line in told), told
    assert error.exit_code == 2
    assert error.hint


def test_commands_backend_needs_commands(tmp_path: Path) -> None:
    text = "schema: sparkbuild.recipe/1\nname: vec\nsummary: s\nsources: {main: {sdist: vec}}\n"
    with pytest.raises(RecipeError, match=r"build\.commands: found none"):
        recipe(tmp_path, text + "build: {backend: commands}\n")


def test_a_build_needs_a_main_source_and_patches_need_a_build(tmp_path: Path) -> None:
    head = "schema: sparkbuild.recipe/1\nname: vec\nsummary: s\n"
    with pytest.raises(RecipeError, match="no source named main"):
        recipe(tmp_path, head + "build: {}\n")
    with pytest.raises(RecipeError, match="without `build`"):
        recipe(tmp_path, head + "sources: {main: {sdist: vec}}\n")


def test_all_mistakes_of_a_file_are_told_at_once_in_its_order(tmp_path: Path) -> None:
    text = (
        GOOD.replace("summary: A vector", "sumary: A").replace("4 GiB", "lots").replace("{sdist: vec}", "{}")
    )
    with pytest.raises(RecipeError) as caught:
        recipe(tmp_path, text)
    lines = caught.value.message.split("\n")
    # `{}` has the right type, so its mistake would be told next.
    assert [line.split(": ")[0].rpartition("/")[2] for line in lines[1:]] == [
        "vec.yaml:3:1",
        "vec.yaml:20:20",
    ]
    assert caught.value.where == f"{tmp_path / 'vec.yaml'}:1:1"
    assert "summary: found no such field" in lines[0]
    assert "these 3" in (caught.value.hint or "")


def test_very_many_mistakes_are_counted(tmp_path: Path) -> None:
    wrong = "".join(f"wrong{number}: 1\n" for number in range(50))
    with pytest.raises(RecipeError, match="and 30 more"):
        recipe(tmp_path, "schema: sparkbuild.recipe/1\nname: vec\nsummary: s\n" + wrong)


@pytest.mark.parametrize("text", ["just text\n", "- a\n- b\n"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecipeError, match=r"the file: found .*expected a mapping with schema, name, summary"):
        recipe(tmp_path, text)


STACK = """\
schema: sparkbuild.stack/1
name: small
summary: Small
platforms: [linux-x86_64]
pythons: [3.10, "3.12"]
toolkit:
  version: ==13.0.*
  packages: ["cuda-toolkit[nvcc,cudart]==13.0.3"]
  headers: [nv/target]
  libraries: [libcudart.so, libcudart_static.a]
components:
  pytorch: {version: 2.10, prebuilt: true}
  vec: {version: "1.0.post1", commits: {main: 0123456789012345678901234567890123456789}}
"""


def stack(tmp_path: Path, text: str) -> Stack:
    return load_stack(write(tmp_path, text, "small"))


def test_a_full_stack_keeps_versions_as_written(tmp_path: Path) -> None:
    found = stack(tmp_path, STACK)
    assert found.components["pytorch"].version == "2.10"
    assert found.pythons == ("3.10", "3.12")
    assert found.components["vec"].commits == {"main": "0123456789" * 4}
    assert not found.default


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("[linux-x86_64]", "[linux-x86]", "4:13", "did you mean linux-x86_64?"),
        ("3.10,", "3.1o,", "5:11", "a CPython version"),
        ("3.10,", '"3.12",', "5:19", "a second time"),
        ("==13.0.*", "13.0", "7:12", "version specifiers"),
        ("==13.0.3", "==13.0.x.3", "8:14", "a requirement such as"),
        ("libcudart.so,", "cudart,", "10:15", "a name such as libcublas.so"),
        ("nv/target", "/usr/include/x.h", "9:13", "stays inside"),
        ("version: 2.10", "version: two", "12:22", "a version such as"),
        ("version: 2.10", "version: v2.10", "12:22", "its normal form is 2.10"),
        ("version: 2.10", "version: 02.10", "12:22", "its normal form is 2.10"),
        ("prebuilt: true", "prebuilt: 1", "12:38", "true or false"),
        ("main: 0123", "main: v0123", "13:47", "40 lower-case hex digits"),
    ],
)
def test_mistakes_in_stacks(tmp_path: Path, old: str, new: str, place: str, words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        stack(tmp_path, STACK.replace(old, new))
    assert caught.value.where == f"{tmp_path / 'small.yaml'}:{place}"
    assert words in caught.value.message


def test_a_stack_names_recipes_that_exist(tmp_path: Path) -> None:
    path = write(tmp_path, STACK, "small")
    assert load_stack(path, recipes={"pytorch", "vec"}).name == "small"
    with pytest.raises(RecipeError, match=r"components\.pytorch.*did you mean torch\?"):
        load_stack(path, recipes={"torch", "vec"})


LOCK = Lock(
    schema="sparkbuild.lock/1",
    stack="small",
    platform="linux-x86_64",
    python="3.12",
    inputs="0" * 64,
    toolkit=(LockedFile(name="a", version="1", file="a-1-py3-none-any.whl", sha256="1" * 64, size=5),),
    components={
        "vec": LockedComponent(
            version="1.0", sources={"main": LockedSource(commit="2" * 40, submodules={"x": "3" * 40})}
        )
    },
)


def test_a_lock_comes_back_and_has_one_spelling(tmp_path: Path) -> None:
    path = tmp_path / "small.lock"
    path.write_bytes(lock_bytes(LOCK))
    assert load_lock(path) == LOCK
    assert lock_bytes(load_lock(path)) == path.read_bytes()
    assert path.read_bytes().endswith(b"}\n")


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw.replace(b"sparkbuild.lock/1", b"sparkbuild.lock/9"),
        lambda raw: raw.replace(b'"inputs"', b'"outputs"'),
        lambda raw: raw.replace(b'"size": 5', b'"size": "five"'),
        lambda raw: b"\xff" + raw,
        lambda _: b"",
    ],
)
def test_a_damaged_lock_is_told(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "small.lock"
    path.write_bytes(damage(lock_bytes(LOCK)))
    with pytest.raises(LockError, match="not a lock") as caught:
        load_lock(path)
    assert caught.value.where == str(path)
    assert "sparkbuild lock" in (caught.value.hint or "")


def test_a_lock_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="cannot be read"):
        load_lock(tmp_path / "absent.lock")


def test_the_message_reads_well(tmp_path: Path) -> None:
    error = mistakes(tmp_path, "expect: native", "expect: nativ")
    assert str(error) == (
        f"{tmp_path}/vec.yaml:27:32: modules[0].expect: found 'nativ', "
        "expected one of host, jit, native, not-applicable (did you mean native?)\n"
        "  hint: mend this; the JSON schemas beside the recipes say what every field may hold"
    )
