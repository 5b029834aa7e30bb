"""Components that need each other: order, rebuilds, failures, and builds that misbehave."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from processes import survivors
from purestack import PureStack

from orchestrator.model.lock import LockedFile, LockedSource

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stack(tmp_path: Path) -> PureStack:
    return PureStack(tmp_path)


@pytest.fixture
def chain(stack: PureStack) -> PureStack:
    stack.project("upper", "middle")
    stack.project("middle", "lower")
    stack.project("lower")
    stack.project("alone")
    return stack


def says(stack: PureStack, name: str) -> str:
    (wheel,) = stack.dist.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"{name}.py").decode()


def spoil(path: Path) -> None:
    stat = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(60)
        file.write(b"\0\0")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_each_is_built_against_the_wheels_that_it_needs(chain: PureStack) -> None:
    ran = chain.run()
    assert ran.code == 0, ran.err
    assert set(ran.actions.values()) == {"built"}
    assert says(chain, "upper") == "SAYS = ['upper', 'middle', 'lower']"
    assert set(chain.run().actions.values()) == {"reuse"}


def test_a_change_below_rebuilds_exactly_what_stands_on_it(chain: PureStack) -> None:
    chain.run()
    chain.project("middle", "lower", code="says += ['changed']")
    assert chain.run().actions == {"lower": "reuse", "middle": "built", "upper": "built", "alone": "reuse"}
    assert says(chain, "upper") == "SAYS = ['upper', 'middle', 'changed']"


def test_one_name_takes_what_it_needs(chain: PureStack) -> None:
    assert chain.run("middle").actions == {"lower": "built", "middle": "built"}


def test_a_failure_takes_what_needs_it_and_no_more(chain: PureStack) -> None:
    chain.run()
    assert list(chain.dist.glob("upper-*.whl"))
    chain.project("middle", "lower", code="raise SystemExit('cannot be built')")
    ran = chain.run()
    assert ran.code == 1
    assert ran.actions == {"lower": "reuse", "middle": "failed", "upper": "skipped", "alone": "reuse"}
    assert "cannot be built" in ran.err
    assert "no longer served in dist" in ran.err
    assert sorted(path.name.split("-")[0] for path in chain.dist.glob("*.whl")) == ["alone", "lower"]
    chain.project("middle", "lower")
    assert chain.run().actions["upper"] == "reuse", "nothing was lost"
    assert list(chain.dist.glob("upper-*.whl"))


def test_wrong_bytes_above_are_built_again_against_what_is_stored_below(chain: PureStack) -> None:
    chain.run()
    spoil(chain.stored("upper"))
    next(chain.dist.glob("upper-*.whl")).unlink()
    ran = chain.run()
    assert ran.code == 0, ran.err
    assert ran.actions == {"lower": "reuse", "middle": "reuse", "upper": "built", "alone": "reuse"}
    assert says(chain, "upper") == "SAYS = ['upper', 'middle', 'lower']"


def test_wrong_bytes_below_are_never_built_against(chain: PureStack) -> None:
    chain.run()
    spoil(chain.stored("lower"))
    chain.project("middle", "lower", code="import lower; says += lower.SAYS + ['new']")
    ran = chain.run()
    assert ran.code == 0, ran.err
    assert "quarantine" in ran.err
    assert ran.actions == {"lower": "built", "middle": "built", "upper": "built", "alone": "reuse"}
    assert says(chain, "upper") == "SAYS = ['upper', 'middle', 'lower', 'new']"


def test_offline_keeps_the_network_from_commands_and_the_manifest_says_how(stack: PureStack) -> None:
    code = "says.append(sorted(line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line))"
    stack.project("asks", code=code)
    ran = stack.run("all", "--offline")
    assert ran.code == 0, ran.err
    assert "no network" in ran.err
    held = json.loads(stack.stored("asks").with_name("manifest.json").read_text())["network"]
    if held == "namespace":
        assert "['lo']" in says(stack, "asks")
    else:
        assert (held, "by variables only" in ran.err) == ("variables", True)


LEAVES = "import os; path = wheel_directory + '/odd-1.0-py3-none-any.whl'; os.{}; return path[-24:]"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "2.0"}, "the build made version 2.0, the stack pins 1.0"),
        ({"wheel": "another"}, "no wheel named odd"),
        ({"code": "return 'odd-1.0-py3-none-any.whl'"}, "in its folder are: no wheels"),
        ({"code": "import sys; sys.exit(3)"}, "exit code"),
        ({"code": "import os; os.kill(os.getpid(), 11)"}, "SIGSEGV"),
        ({"code": "raise ValueError('the reason')"}, "ValueError: the reason"),
        ({"code": "import os; os._exit(0)"}, "ended without telling its result"),
        ({"code": LEAVES.format("mkfifo(path)")}, "no wheels"),
        ({"code": LEAVES.format("symlink('/nowhere', path)")}, "no wheels"),
        ({"code": LEAVES.format("mkdir(path)")}, "no wheels"),
        ({"build": "{directory: nowhere}"}, "no folder nowhere"),
        ({"build": "{env: {PATH: /bin}}"}, "env sets PATH"),
        ({"build": '{backend: commands, commands: [["false"]]}'}, "exit code 1"),
        ({"build": '{backend: commands, commands: [["no-such-tool"]]}'}, "no-such-tool"),
        ({"build": '{backend: commands, commands: [["true"]]}'}, "nothing that matches *.whl"),
    ],
)  # fmt: skip
def test_a_build_that_misbehaves_is_told_in_one_line(
    stack: PureStack, changes: dict[str, str], said: str
) -> None:
    stack.project("odd", **changes)
    ran = stack.run()
    assert ran.code in {1, 2, 4}, ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err.split("error:")[0]
    assert "hint" in ran.err
    assert not list(stack.dist.glob("*.whl"))


RAW = """\
import zipfile
path = wheel_directory + "/odd-1.0-py3-none-any.whl"
with zipfile.ZipFile(path, "w") as wheel:
    wheel.writestr("odd-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
    {members}
{after}
return "odd-1.0-py3-none-any.whl"
"""
GOOD = 'wheel.writestr("odd-1.0.dist-info/METADATA", "Name: odd\\nVersion: 1.0\\n")'


@pytest.mark.parametrize(
    ("members", "after", "said"),
    [
        (f'{GOOD}; wheel.writestr("../../evil.py", "")', "", "a member named '../../evil.py'"),
        (f'{GOOD}; wheel.writestr("/abs/evil.py", "")', "", "a member named '/abs/evil.py'"),
        (GOOD.replace("Name: odd", "Name: torch"), "", "another project: torch"),
        ("pass", "", "no METADATA"),
        (GOOD, "open(path, 'r+b').truncate(80)", "no readable zip"),
        (GOOD, "open(wheel_directory + '/torch-1.0-py3-none-any.whl', 'wb').close()", "torch"),
    ],
)  # fmt: skip
def test_a_wheel_that_no_installer_should_see_is_refused(
    stack: PureStack, members: str, after: str, said: str
) -> None:
    stack.project("odd", code=RAW.format(members=members, after=after))
    stack.project("alone")
    ran = stack.run()
    assert ran.code == 1, ran.err
    assert said in ran.err
    assert ran.actions == {"odd": "failed", "alone": "built"}
    assert [path.name for path in stack.dist.glob("*.whl")] == ["alone-1.0-py3-none-any.whl"]


@pytest.mark.parametrize("name", ["sparkbuild.json", "manifest.json", ".used"])
def test_names_that_dist_and_store_need_are_refused(stack: PureStack, name: str) -> None:
    made = f"import backend, sys; backend.build_wheel(sys.argv[1]); open(sys.argv[1] + '/{name}', 'w')"
    words = json.dumps(["{python}", "-c", made, "{out}"])
    stack.project("odd", build=f'{{backend: commands, commands: [{words}], outputs: ["*.whl", "{name}"]}}')
    ran = stack.run()
    assert ran.code == 1, ran.err
    assert name in ran.err


def test_the_same_stack_for_another_arch_says_what_it_replaces(stack: PureStack) -> None:
    stack.project("alone")
    stack.run()
    stack.project("alone", code="says += ['new']", version="1.0+local")
    ran = stack.run()
    assert ran.code == 0, ran.err
    assert "replaced in dist: alone-1.0-py3-none-any.whl" in ran.err


def test_a_step_that_meets_the_unforeseen_does_not_stop_the_others(stack: PureStack) -> None:
    stack.project("odd", code="import shutil, os; shutil.rmtree(os.environ['TMPDIR'] + '/../out')")
    stack.project("alone")
    ran = stack.run()
    assert ran.code in {1, 70}, ran.err
    assert ran.actions == {"odd": "failed", "alone": "built"}
    assert "hint" in ran.err


@pytest.mark.parametrize("epoch", ["abc", "", "99999999999", "-1", "0"])
def test_an_odd_epoch_is_a_usage_error(stack: PureStack, epoch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    stack.project("alone")
    ran = stack.run()
    assert ran.code == 2
    assert "SOURCE_DATE_EPOCH" in ran.err


def test_commands_make_a_wheel_too(stack: PureStack) -> None:
    code = "import backend, sys; backend.build_wheel(sys.argv[1])"
    stack.project(
        "made", build=f'{{backend: commands, commands: [["{{python}}", "-c", "{code}", "{{out}}"]]}}'
    )
    ran = stack.run()
    assert ran.code == 0, ran.err
    assert says(stack, "made") == "SAYS = ['made']"


def test_what_a_build_leaves_running_is_killed_and_told(stack: PureStack) -> None:
    tag = f"leftover-{os.getpid()}-{id(stack)}"
    leave = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{tag}'],"
        " start_new_session=True)"
    )
    stack.project("noisy", code=leave)
    ran = stack.run()
    assert ran.code == 0, ran.err
    assert tag in ran.err
    assert not survivors(tag, limit_s=0)


def test_output_that_is_large_binary_or_wants_input_is_no_trouble(stack: PureStack) -> None:
    loud = (
        "import sys\n"
        "assert sys.stdin.read() == ''\n"
        "sys.stdout.buffer.write(bytes(range(256)) * 40000 + b'\\x1b]0;title\\x07\\n')"
    )
    stack.project("loud", code=loud)
    ran = stack.run()
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.err


def test_a_build_cannot_see_the_user_s_environment(stack: PureStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("MY_SECRET", "hidden")
    monkeypatch.setenv("CFLAGS", "-march=native")
    stack.project("seen", code="import os; says += sorted(os.environ)")
    assert stack.run().code == 0
    text = says(stack, "seen")
    assert "MY_SECRET" not in text
    assert "PYTHONPATH" not in text
    assert "SOURCE_DATE_EPOCH" in text
    assert "march" not in stack.log("seen")


SEVERAL = """\
schema: sparkbuild.recipe/1
name: several
summary: For tests
sources:
  main: {local: projects/several}
  kernels: {local: projects/kernels, env: KERNELS_SRC_DIR}
  vendored: {local: projects/vendored, into: third_party/vendored}
  fetched: {local: projects/fetched, cmake: FETCHCONTENT_SOURCE_DIR_FETCHED}
  packed: {archive: "@ARCHIVE@", env: PACKED_SRC_DIR}
build:
  env: {CMAKE_ARGS: -DFAST=ON}
"""
READS = """\
import os, pathlib
read = lambda folder: pathlib.Path(folder, "says").read_text()
options = dict(word[2:].split("=", 1) for word in os.environ["CMAKE_ARGS"].split())
assert options["FAST"] == "ON"
says += [read(os.environ["KERNELS_SRC_DIR"]), read("third_party/vendored")]
says += [read(options["FETCHCONTENT_SOURCE_DIR_FETCHED"]), read(os.environ["PACKED_SRC_DIR"])]
"""


def test_several_sources_are_handed_over_each_in_its_way(stack: PureStack) -> None:
    for name in ("kernels", "vendored", "fetched", "packed"):
        folder = stack.recipes / "projects" / name
        folder.mkdir(parents=True)
        (folder / "says").write_text(name)
    archive = stack.root / "packed-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(stack.recipes / "projects" / "packed", "packed-1.0")
    stack.project("several", code=READS)
    (stack.recipes / "several.yaml").write_text(SEVERAL.replace("@ARCHIVE@", archive.as_uri()))
    data = archive.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    file = LockedFile(name="several", version="1.0", file=archive.name, sha256=digest, size=len(data))
    stack.sources["several"] = {"packed": LockedSource(file=file)}
    ran = stack.run()
    assert ran.code == 0, ran.err
    assert says(stack, "several") == "SAYS = ['several', 'kernels', 'vendored', 'fetched', 'packed']"
    (stack.recipes / "projects" / "vendored" / "says").write_text("changed")
    assert stack.run().actions == {"several": "built"}
    assert "changed" in says(stack, "several")


def test_a_corrupt_archive_is_told_and_nothing_is_built(stack: PureStack) -> None:
    archive = stack.root / "packed-1.0.tar.gz"
    archive.write_bytes(b"not what the lock says")
    stack.project("several", code="")
    text = SEVERAL.replace("@ARCHIVE@", archive.as_uri())
    kept = [line for line in text.splitlines() if not re.match(r"  (kernels|vendored|fetched):", line)]
    (stack.recipes / "several.yaml").write_text("\n".join(kept))
    file = LockedFile(name="several", version="1.0", file=archive.name, sha256="0" * 64, size=22)
    stack.sources["several"] = {"packed": LockedSource(file=file)}
    ran = stack.run()
    assert ran.code == 5, ran.err
    assert "0" * 64 in ran.err
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in ran.err
    assert not list(stack.home.glob("work/*/several"))
