"""The tiny project through every stage, by the command line: what a person meets."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from tinyproject import SPARKBUILD, git

if TYPE_CHECKING:
    from tinyproject import TinyProject

pytestmark = pytest.mark.toolkit


def test_cold_build_gives_an_audited_wheel_that_plain_pip_installs(tiny: TinyProject) -> None:
    ran = tiny.run("all", "--stack", "tiny")
    assert ran.code == 0, ran.err
    assert "sm_121a 3/3" in ran.out
    assert tiny.wheel.name.startswith("tiny_cuda-1.0+cu130.sm121a-cp")
    audit = tiny.run("audit", "--json", str(tiny.wheel))
    (module,) = [m for m in json.loads(audit.out)["specs"][0]["modules"] if m["path"].endswith(".so")]
    assert (audit.code, module["verdict"]) == (0, "native")
    assert module["images"] == {"sass": {"sm_121a": 3}}
    site = tiny.root / "site"
    index = (tiny.dist / "simple").as_uri()
    pip = [sys.executable, "-m", "pip", "install", "-q", "--isolated", "--target", str(site)]
    subprocess.run([*pip, "--index-url", index, "tiny-cuda"], check=True)
    with zipfile.ZipFile(tiny.wheel) as wheel:
        assert (site / "tiny_cuda" / "_C.so").read_bytes() == wheel.read("tiny_cuda/_C.so")
    assert not list(tiny.home.glob("work/*")), "build trees go after success"


def test_the_same_again_does_nothing_and_says_so(tiny: TinyProject) -> None:
    tiny.build()
    before = {path: path.stat().st_mtime_ns for path in tiny.dist.rglob("*")}
    ran = tiny.run("all", "--stack", "tiny")
    assert ran.code == 0
    assert "nothing to do" in ran.out
    assert {path: path.stat().st_mtime_ns for path in tiny.dist.rglob("*")} == before
    assert len(list(tiny.home.glob("logs/*"))) == 1, "no command was run"


def test_a_run_with_nothing_to_do_starts_no_process(tiny: TinyProject) -> None:
    tiny.build()
    code = (
        "import sys\n"
        "starts = {'subprocess.Popen', 'os.posix_spawn', 'os.exec', 'os.fork', 'os.forkpty', 'os.system'}\n"
        "sys.addaudithook(lambda event, args: event in starts and sys.exit(f'started {event} {args!r}'))\n"
        "from orchestrator.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    arguments = tiny.command("all", "--stack", "tiny")[len(SPARKBUILD) :]

    def watched() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", code, *arguments]
        return subprocess.run(
            command, cwd=tiny.root, env=tiny.environment(), capture_output=True, text=True, check=False
        )

    done = watched()
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stdout
    tiny.env = {"OTHER": "1"}
    tiny.write()
    assert "started subprocess.Popen" in watched().stderr, "the watch itself works"


def test_two_builds_give_the_same_bytes(tiny: TinyProject) -> None:
    tiny.build()
    first = tiny.wheel.read_bytes()
    for artifact in (tiny.home / "artifacts").iterdir():
        artifact.rename(tiny.root / "elsewhere")
    assert tiny.build()["rows"][0]["action"] == "built"
    assert tiny.wheel.read_bytes() == first


def test_what_changes_builds_again_and_why_names_it(tiny: TinyProject) -> None:
    def why() -> str:
        return str(json.loads(tiny.run("why", "tiny-cuda", "--stack", "tiny", "--json").out)["why"])

    assert why() == "not built yet"
    keys = {tiny.build()["rows"][0]["key"]}
    tiny.add_patch()
    assert why() == "patch 0001-shift is new"
    keys.add(tiny.build()["rows"][0]["key"])
    tiny.add_patch(shift="2.0f")
    assert why().startswith("patch 0001-shift changed")
    keys.add(tiny.build()["rows"][0]["key"])
    tiny.env = {"ANSWER": "42"}
    tiny.write()
    assert why() == "env ANSWER is new"
    family = tiny.build(arch="12.0f")["rows"][0]
    assert (family["action"], family["coverage"]) == ("built", "sm_120f 3/3")
    assert len(keys | {family["key"]}) == 4
    tiny.patches, tiny.env = (), {}
    tiny.write()
    assert tiny.build()["rows"][0]["action"] == "reuse"


def test_a_local_folder_takes_the_place_of_a_source(tiny: TinyProject) -> None:
    folder = tiny.root / "mine"
    git(tiny.root, "clone", "-q", "--recursive", str(tiny.repository), str(folder))
    local = f"tiny-cuda={folder}"
    built = tiny.build("--source", local)["rows"][0]
    assert built["action"] == "built"
    assert tiny.build("--source", local)["worked"] is False
    unit = folder / "csrc" / "shift.cu"
    unit.write_text(unit.read_text().replace("1.0f", "3.0f"))
    assert tiny.build("--source", local)["rows"][0]["key"] != built["key"]


def test_a_failing_build_shows_the_first_error_and_where_the_log_is(tiny: TinyProject) -> None:
    broken = """\
Why: to fail.
--- a/csrc/shift.cu
+++ b/csrc/shift.cu
@@ -1,1 +1,2 @@
 #include "tinymath.cuh"
+int broken = no_such_name;
"""
    tiny.add_patch(text=broken)
    ran = tiny.run("all", "--stack", "tiny")
    assert ran.code == 1
    assert 'csrc/shift.cu(2): error: identifier "no_such_name" is undefined' in ran.err
    (log,) = tiny.home.glob("logs/*/tiny-cuda.log")
    assert str(log) in ran.err
    assert "failed" in ran.out
    assert list(tiny.home.glob("work/*/tiny-cuda/src/csrc/shift.cu")), "the tree is kept to look at"


def test_a_patch_that_does_not_apply_leaves_the_tree_and_names_file_and_hunk(tiny: TinyProject) -> None:
    drifted = """\
Why: drift.
--- a/csrc/scale.cu
+++ b/csrc/scale.cu
@@ -1,1 +1,1 @@
-#include "other.cuh"
+#include "x.cuh"
"""
    tiny.add_patch(text=drifted)
    ran = tiny.run("all", "--stack", "tiny")
    assert ran.code == 1
    assert "0001-shift" in ran.err
    assert "csrc/scale.cu" in ran.err
    assert "other.cuh" in ran.err
    (unit,) = tiny.home.glob("work/*/tiny-cuda/src/csrc/scale.cu")
    assert unit.read_text() == (tiny.repository / "csrc" / "scale.cu").read_text()


def test_a_green_but_useless_wheel_is_rejected_and_another_policy_audits_again(tiny: TinyProject) -> None:
    tiny.env = {"NVCC_APPEND_FLAGS": "-gencode=arch=compute_90,code=sm_90"}
    tiny.expect = "host"
    tiny.write()
    ran = tiny.run("all", "--stack", "tiny")
    assert ran.code == 3
    assert "should be host-only" in ran.err
    assert not list(tiny.dist.glob("*.whl"))
    again = tiny.run("all", "--stack", "tiny")
    assert again.code == 3
    assert len(list(tiny.home.glob("logs/*"))) == 1, "a rejected wheel is not built again"
    tiny.expect = "native"
    tiny.write()
    report = tiny.build()
    assert (report["rows"][0]["action"], report["rows"][0]["coverage"]) == ("reuse", "sm_121a, sm_90 3/3")
    assert tiny.wheel.exists()
    assert len(list(tiny.home.glob("logs/*"))) == 1, "another policy audits again, and never builds"


def test_tampered_bytes_are_quarantined_and_built_again_with_a_warning(tiny: TinyProject) -> None:
    tiny.build()
    good = tiny.wheel.read_bytes()
    (stored,) = tiny.home.glob("artifacts/*/*.whl")
    stat = stored.stat()
    stored.chmod(0o644)
    with stored.open("r+b") as file:
        file.seek(100)
        file.write(b"\0\1\2\3")
    import os

    os.utime(stored, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    tiny.wheel.unlink()
    ran = tiny.run("all", "--stack", "tiny")
    assert ran.code == 0, ran.err
    assert "warning" in ran.err
    assert "quarantine" in ran.err
    assert tiny.wheel.read_bytes() == good
    assert tiny.run("store", "verify", arch="").code == 0


def test_one_recipe_by_name_and_offline_after_fetch(tiny: TinyProject) -> None:
    fetched = tiny.run("fetch", "tiny-cuda", "--stack", "tiny")
    assert fetched.code == 0, fetched.err
    hidden = tiny.root / "hidden"
    tiny.repository.rename(hidden)
    ran = tiny.run("tiny-cuda", "--stack", "tiny", "--offline")
    assert ran.code == 0, ran.err
    assert tiny.wheel.exists()


def test_a_source_that_cannot_be_had_stops_before_any_build(tiny: TinyProject) -> None:
    tiny.commit = "1" * 40
    tiny.write()
    ran = tiny.run("all", "--stack", "tiny")
    assert ran.code == 5
    assert "1" * 40 in ran.err
    assert not list(tiny.home.glob("logs/*/*.log"))


def test_json_of_a_run(tiny: TinyProject) -> None:
    report = tiny.build()
    assert report["schema"] == "sparkbuild.run/1"
    (row,) = report["rows"]
    assert row["peak_bytes"] > 10 * 2**20
    assert 0 < row["cpu_s"] < 120
    (manifest,) = tiny.home.glob("artifacts/*/manifest.json")
    stored = json.loads(manifest.read_bytes())
    assert stored["audit"]["coverage"] == "sm_121a 3/3"
    assert stored["ingredients"]["arch"] == "12.1a"
