"""Make the binaries in this folder with the nvcc on PATH, and record what each must hold.

Run by hand, and only when a test needs another binary: `python make.py` (CUDA 13.0, gcc, ar). What is
recorded in `expected.json` is what the command lines asked for, not what any reader of ours says.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
UNITS = (Path("add.cu"), Path("launch.cu"))  # relative: no path of a machine gets into the binaries
CUBINS = ("80", "90", "90a", "100f", "120", "120a", "120f", "121", "121a", "121f")


def run(*command: str | Path) -> None:
    """Run one command in this folder."""
    subprocess.run(command, check=True, cwd=HERE)


def codes(*names: str) -> list[str]:
    """Return -gencode arguments; `121a` is SASS, `c121a` PTX."""
    found = []
    for name in names:
        number = name.removeprefix("c")
        code = f"compute_{number}" if name.startswith("c") else f"sm_{number}"
        found.append(f"-gencode=arch=compute_{number},code={code}")
    return found


def library(out: str, *names: str, flags: tuple[str, ...] = (), units: tuple[Path, ...] = UNITS) -> None:
    """Compile and link units into a shared library without the CUDA runtime."""
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for unit in units:
            objects.append(Path(folder, unit.stem + ".o"))
            run("nvcc", "-c", *codes(*names), *flags, "-Xcompiler", "-fPIC", unit, "-o", objects[-1])
        run("gcc", "-shared", "-s", *objects, "-o", out)


def main() -> None:
    """Make everything."""
    expected: dict[str, object] = {}

    def holds(
        name: str, exact: int, images: dict[str, int], apart: dict[str, int] | None = None, **other: int
    ) -> None:
        counts = {"exact": exact, "compatible": 0, "jit": 0, "none": 0, **other}
        expected[name] = {"containers": counts, "images": images, "relocatable": apart or {}}

    for arch in CUBINS:
        run("nvcc", "-cubin", f"-arch=sm_{arch}", UNITS[1], "-o", f"{arch}.cubin")
        expected[f"{arch}.cubin"] = {"cubin": f"sm_{arch}"}
    run("nvcc", "-dc", "-cubin", "-arch=sm_121a", UNITS[0], "-o", "rel.121a.cubin")
    expected["rel.121a.cubin"] = {"cubin": "sm_121a"}
    for arch in ("121a", "120f", "120a", "90"):
        run("nvcc", "-fatbin", *codes("c" + arch), UNITS[1], "-o", f"ptx.{arch}.fatbin")
        holds(
            f"ptx.{arch}.fatbin", 0, {f"compute_{arch}": 1}, jit=int(arch != "120a"), none=int(arch == "120a")
        )
    for mode in ("none", "speed", "size"):
        run(
            "nvcc",
            "-fatbin",
            f"--compress-mode={mode}",
            *codes("120f", "c121a"),
            UNITS[1],
            "-o",
            f"{mode}.fatbin",
        )
        holds(f"{mode}.fatbin", 0, {"sm_120f": 1, "compute_121a": 1}, compatible=1)

    library("native.so", "90a", "121a")
    holds("native.so", 2, {"sm_90a": 2, "sm_121a": 2})
    library("wrong.so", "120a", "c80")
    holds("wrong.so", 0, {"sm_120a": 2, "compute_80": 2}, jit=2)
    library("family.so", "80", "120f", flags=("--compress-mode=size",))
    holds("family.so", 0, {"sm_80": 2, "sm_120f": 2}, compatible=2)
    for name, arches in (("hollow.so", ("90a", "121a")), ("hollow121.so", ("121a",))):
        library(name, *arches, flags=("--compress-mode=size",), units=(Path("hollow.cu"),))
        holds(name, 1, {f"sm_{arch}": 1 for arch in arches})
    run("nvcc", "-c", *codes("121a"), UNITS[1], "-o", "plain.o")
    holds("plain.o", 1, {"sm_121a": 1})
    run("nvcc", "-dc", "-Xcompiler", "-fPIC", *codes("120f", "c120f"), UNITS[0], "-o", "rdc.o")
    holds("rdc.o", 0, {}, {"sass:120f": 1, "ptx:120f": 1})
    run("nvcc", "-dc", "-gencode=arch=compute_121a,code=lto_121a", UNITS[0], "-o", "lto.o")
    holds("lto.o", 0, {}, {"lto:121a": 1})
    run("nvcc", "-dlink", "-Xcompiler", "-fPIC", *codes("120f"), "rdc.o", "-o", "dlink.o")
    run("gcc", "-shared", "-s", "rdc.o", "dlink.o", "-o", "linked.so")
    holds("linked.so", 0, {"sm_120f": 1}, {"sass:120f": 1, "ptx:120f": 1}, compatible=1)
    run("ar", "rcs", "mixed.a", "plain.o", "rdc.o")
    holds("mixed.a", 1, {"sm_121a": 1}, {"sass:120f": 1, "ptx:120f": 1})

    with tempfile.TemporaryDirectory() as folder:
        data = (HERE / "size.fatbin").read_bytes()
        source = Path(folder, "array.c")
        source.write_text(f"const _Alignas(8) unsigned char blob[] = {{{','.join(map(str, data))}}};\n")
        run("gcc", "-shared", "-s", source, "-o", "array.so")
        holds("array.so", 0, {"sm_120f": 1, "compute_121a": 1}, compatible=1)
        source.write_text("unsigned is_fatbin(unsigned word) { return word == 0xBA55ED50u; }\n")
        run("gcc", "-O2", "-shared", "-s", source, "-o", "magic.so")
        holds("magic.so", 0, {})
    for left in ("dlink.o", "add.fatbin.c"):
        (HERE / left).unlink(missing_ok=True)
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    if shutil.which("nvcc") is None:
        raise SystemExit("nvcc is not on PATH")
    main()
