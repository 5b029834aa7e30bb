"""Published wheels, read as a user would, against readings of others: an independent one, and cuobjdump's.

`tests/data/oracle.json` holds, for each module with device code, the containers that are exact,
compatible, jit and none on 12.1, and the images.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from orchestrator.store.home import Home

pytestmark = pytest.mark.wheels

ORACLE: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "oracle.json").read_text()
)
SPECS = {
    "bitsandbytes": ("bitsandbytes==0.50.2", "manylinux_2_24_aarch64"),
    "cupy_cuda13x": ("cupy-cuda13x==14.2.0", "manylinux2014_aarch64"),
    "sglang_kernel": ("sglang-kernel==0.4.10", "manylinux2014_aarch64"),
    "vllm": ("vllm==0.33.0", "manylinux_2_28_aarch64"),
}


def audited(home: Path, spec: str, platform: str, *options: str) -> dict[str, Any]:
    """Return the JSON of `sparkbuild audit` for a wheel that the index has."""
    shown = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "orchestrator", "audit", spec, "--platform", platform),
            *("--python", "3.12", "--arch", "12.1a", "--json", *options),
        ],
        check=False,
        capture_output=True,
        text=True,
        env={"SPARKBUILD_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
    )
    assert shown.returncode in (0, 3), shown.stderr
    report: dict[str, Any] = json.loads(shown.stdout)["specs"][0]
    return report


def read(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report in the form of the oracle."""
    found = {}
    for module in report["modules"]:
        counts = module["containers"]
        if counts["total"] or module["relocatable"]:
            found[module["path"]] = {
                "containers": [counts[how] for how in ("exact", "compatible", "jit", "none")],
                "images": module["images"],
            }
            if module["relocatable"]:
                found[module["path"]]["relocatable"] = module["relocatable"]
    return found


@pytest.mark.parametrize("wheel", ORACLE)
def test_oracle(wheel: str, wheels_home: Home) -> None:
    spec, platform = SPECS[wheel.partition("-")[0]]
    report = audited(wheels_home.root, spec, platform)
    assert read(report) == ORACLE[wheel]
    assert report["bare_cubins"] == {}


@pytest.mark.parametrize("name", ["sglang_kernel", "bitsandbytes"])
def test_cuobjdump_agrees(name: str, wheels_home: Home, tmp_path: Path) -> None:
    spec, platform = SPECS[name]
    report = audited(wheels_home.root, spec, platform)
    audited(wheels_home.root, "nvidia-cuda-cuobjdump==13.5.37", "manylinux2014_x86_64")
    (wheel,) = wheels_home.downloads.glob(f"*/{name}-*.whl")
    tool = extracted(wheels_home, "nvidia_cuda_cuobjdump", "bin/cuobjdump", tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        modules = [info for info in archive.namelist() if info.endswith(".so")]
        ours = {module["path"]: module for module in report["modules"]}
        compared, refused = 0, set()
        for path in modules:
            theirs = listed(tool, Path(archive.extract(path, tmp_path)))
            if theirs is None:
                refused.add(path)
                continue
            assert folded(ours[path]) == theirs, path
            compared += len(theirs)
    # cuobjdump dies of one odd cubin in that library; the oracle has read it
    assert refused <= {"bitsandbytes/libbitsandbytes_cuda121.so"}
    assert compared > 8


def extracted(home: Home, wheel: str, member: str, folder: Path) -> Path:
    (path,) = home.downloads.glob(f"*/{wheel}-*.whl")
    with zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(member)]
        tool = Path(archive.extract(name, folder))
    tool.chmod(0o755)
    return tool


def listed(tool: Path, module: Path) -> Counter[str] | None:
    """Return what cuobjdump lists, with `f` folded; None when it gives up."""
    found: Counter[str] = Counter()
    for option in ("-lelf", "-lptx"):
        shown = subprocess.run([tool, option, "-all", module], check=False, capture_output=True, text=True)
        if "fatal" in shown.stderr:
            return None
        found.update(re.findall(r"\.(sm_\d+[af]?)\.(?:cubin|ptx)$", shown.stdout, re.MULTILINE))
    return Counter({name.rstrip("f"): many for name, many in found.items()})


def folded(module: dict[str, Any]) -> Counter[str]:
    """Return a module's images, those to be linked first too, in cuobjdump's names."""
    found: Counter[str] = Counter()
    for held in module["images"].values():
        for name, many in held.items():
            found[f"sm_{name.partition('_')[2].rstrip('f')}"] += many
    for name, many in module["relocatable"].items():
        found[f"sm_{name.partition(':')[2].rstrip('f')}"] += many
    return found
