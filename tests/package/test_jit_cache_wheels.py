"""The two wheels by which FlashInfer finds its kernels, packed as the shipped recipe says and asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from orchestrator.model.catalog import Catalog
from orchestrator.package.pack import Parcel, pack_wheel

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "0.7.2.post1+cu130.torch2141.sm121a"

# What FlashInfer reads of each provider: jit/env.py, _get_aot_providers.
ASK = """
import json, flashinfer_jit_cache
told = [
    {
        "provider_id": provider.provider_id,
        "distribution": provider.distribution,
        "version": provider.version,
        "jit_cache_dir": str(provider.jit_cache_dir),
        "cuda_architectures": sorted(provider.cuda_architectures),
        "modules": sorted(provider.modules),
    }
    for provider in flashinfer_jit_cache.get_jit_cache_providers()
]
print(json.dumps([flashinfer_jit_cache.__version__, told]))
"""


def installed(folder: Path, *sms: str) -> Path:
    """Pack the shipped recipe's wheels for each set of arches, install them, and return the folder."""
    catalog = Catalog.default()
    build = catalog.recipe("flashinfer").build
    assert build is not None
    for name in ("norm", "rope"):
        library = folder / "out/jit-cache" / name / f"{name}.so"
        library.parent.mkdir(parents=True, exist_ok=True)
        library.write_bytes(b"no library")
    (folder / "src").mkdir()
    (folder / "src/LICENSE").write_text("all that is in it")
    wheels: list[Path] = []
    for sm in sms:
        parcel = Parcel(
            version=VERSION,
            sm=sm,
            platform="linux_x86_64",
            roots={"out": folder / "out", "src": folder / "src"},
            texts={name: catalog.text_file("flashinfer", name) for name in ("shim.py", "provider.py")},
        )
        into = folder / sm
        into.mkdir()
        wheels += [pack_wheel(wheel, parcel, epoch=1_700_000_000, into=into) for wheel in build.wheels]
    one_shim = {wheel.name: wheel for wheel in wheels}
    site = folder / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--target",
        str(site),
    ]
    # Built on another machine, such a wheel is for that one; here only its texts are run.
    command += ["--platform", "linux_x86_64", "--only-binary", ":all:"]
    subprocess.run([*command, *map(str, one_shim.values())], check=True)
    return site


def asked(site: Path) -> Any:
    """Return what the installed shim tells, in a Python that sees nothing else."""
    ran = subprocess.run(
        [sys.executable, "-S", "-c", ASK],
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return [*json.loads(ran.stdout), ran.stderr]


def test_the_shim_finds_the_provider_of_an_arch(tmp_path: Path) -> None:
    site = installed(tmp_path, "sm121a")
    version, (provider,), _ = asked(site)
    assert version == VERSION
    assert provider == {
        "provider_id": "sm121a",
        "distribution": "flashinfer-jit-cache-sm121a",
        "version": VERSION,
        "jit_cache_dir": str(site / "flashinfer_jit_cache_sm121a/jit_cache"),
        "cuda_architectures": ["sm121a"],
        "modules": ["norm", "rope"],
    }
    for name in provider["modules"]:
        assert (site / "flashinfer_jit_cache_sm121a/jit_cache" / name / f"{name}.so").is_file()


def test_a_build_for_two_arches_is_one_provider_for_both(tmp_path: Path) -> None:
    _, (provider,), _ = asked(installed(tmp_path, "sm90a_sm121a"))
    assert provider["distribution"] == "flashinfer-jit-cache-sm90a-sm121a"
    assert provider["cuda_architectures"] == ["sm121a", "sm90a"]


def test_several_providers_come_in_order_and_a_strange_one_is_left_out(tmp_path: Path) -> None:
    site = installed(tmp_path, "sm120f", "sm121a")
    _, providers, _ = asked(site)
    assert [provider["provider_id"] for provider in providers] == ["sm120f", "sm121a"]
    module = site / "flashinfer_jit_cache_sm120f/__init__.py"
    module.write_text(module.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    _, (left,), told = asked(site)
    assert left["provider_id"] == "sm121a"
    assert "flashinfer_jit_cache_sm120f:get_provider speaks version 2, not 1" in told
