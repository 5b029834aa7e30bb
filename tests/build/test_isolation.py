"""Commands without network: what really holds here, and the fallback where a namespace is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from processes import alive
from source_help import send, served
from workshop import Workshop

from orchestrator.build import nonet
from orchestrator.build.isolation import OPEN, Isolation, isolation

if TYPE_CHECKING:
    from collections.abc import Callable

ASK = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
except OSError as error:
    print("no answer:", error)
"""
# Root of a user namespace may set its limit to none; then the kernel refuses more to everybody inside.
REFUSING = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'


@pytest.fixture(scope="module")
def held() -> Isolation:
    found = isolation(offline=True)
    if found.held != "namespace":
        pytest.skip(f"this system allows no network namespace: {found.why}")
    return found


def in_a_system_that_refuses(*command: str) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("unshare")
    if tool is None:
        pytest.skip("no unshare to make a system that refuses")
    tried = subprocess.run(
        [tool, "--user", "--map-root-user", "sh", "-c", REFUSING, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if not tried.stdout and ("unshare" in tried.stderr or "max_net_namespaces" in tried.stderr):
        pytest.skip(f"no system that refuses can be made: {tried.stderr}")
    return tried


def said(found: Isolation, *command: str, **more: str) -> str:
    env = found.into({"PATH": os.defpath, **more})
    done = subprocess.run(
        found.wrap(command), env=env, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout + done.stderr


def test_with_the_network_nothing_is_changed() -> None:
    assert isolation(offline=False) is OPEN
    assert (OPEN.wrap(["a", "b"]), OPEN.into({"A": "1"}), OPEN.text) == (
        ["a", "b"],
        {"A": "1"},
        "network allowed",
    )


def test_a_server_of_this_machine_is_out_of_reach(held: Isolation) -> None:
    with served(lambda request, _: send(request, b"reached")) as (url, asked):
        assert said(OPEN, sys.executable, "-c", ASK, url) == "reached\n"
        assert "no answer" in said(held, sys.executable, "-c", ASK, url)
        assert len(asked) == 1
    assert "network namespace" in held.text


def test_the_command_is_the_same_otherwise(held: Isolation, tmp_path: Path) -> None:
    """User, group, folder, arguments, variables, exit code; files belong to who made them."""
    script = "import os, sys; open('made', 'w'); print(os.getuid(), os.getgid(), os.getcwd(), *sys.argv[1:])"
    done = subprocess.run(
        held.wrap([sys.executable, "-c", f"{script}; sys.exit(7)", "a b", "--c"]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, f"{os.getuid()} {os.getgid()} {tmp_path} a b --c\n")
    assert (tmp_path / "made").stat().st_uid == os.getuid()


def test_loopback_works_inside(held: Isolation) -> None:
    """Build systems' own servers, and tests, talk over it."""
    script = (
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
        "socket.create_connection(s.getsockname(), 5); print('heard')"
    )
    assert said(held, sys.executable, "-c", script) == "heard\n"


def test_the_gate_is_reached_through_its_file(held: Isolation, tmp_path: Path) -> None:
    with Workshop(tmp_path) as shop:
        shop.write("a.c", "pass")
        done = shop.run(*held.wrap(["cc", "-c", "a.c", "-o", "a.o"]))
    assert done.returncode == 0, done.stderr
    assert [(record.unit.name, record.how) for record in shop.records] == [("a.c", "ran")]


def test_a_command_that_is_not_there(held: Isolation) -> None:
    done = subprocess.run(held.wrap(["no-such-tool"]), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (nonet.NOT_FOUND, "no-such-tool: No such file or directory\n")


def test_under_the_supervisor_it_is_stopped_with_all_its_children(held: Isolation, bench: Any) -> None:
    from orchestrator.build import supervisor
    from orchestrator.errors import BuildFailedError

    argv = held.wrap(["/bin/sh", "-c", "(setsid sleep 601 &) ; sleep 600"])
    with pytest.raises(BuildFailedError, match="did not end within"):
        supervisor.run(argv, cwd=bench.folder, env=bench.env, log=bench.log, timeout_s=2)
    assert not alive(bench.tag)


def test_it_dies_with_its_guardian(held: Isolation, tmp_path: Path) -> None:
    """The kernel forgets the wish to do so when a process changes its credentials."""
    mark = tmp_path / "pid"
    child = held.wrap(["/bin/sh", "-c", f"echo $$ > {mark}; exec sleep 600"])
    script = (
        "import ctypes, os, sys, time\n"
        "if not os.fork():\n"
        "    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n"
        "    os.execv(sys.argv[1], sys.argv[1:])\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, *child]) as guardian:
        wait_for(mark.exists)
        wait_for(lambda: bool(mark.read_text().strip()))
        pid = int(mark.read_text())
        assert Path(f"/proc/{pid}").exists()
        guardian.kill()
    wait_for(
        lambda: not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    )


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_where_it_is_refused_variables_hold() -> None:
    script = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from orchestrator.build.isolation import isolation\n"
        "found = isolation(offline=True)\n"
        "env = found.into({'CMAKE_ARGS': '-DA=1'})\n"
        "print(json.dumps([found.held, found.wrap(['x']), env, found.text]))\n"
    )
    root = str(Path(nonet.__file__).parents[2])
    done = in_a_system_that_refuses(sys.executable, "-c", script, root)
    held, argv, env, text = json.loads(done.stdout)
    assert (held, argv) == ("variables", ["x"])
    assert env["CMAKE_ARGS"] == "-DA=1 -DFETCHCONTENT_FULLY_DISCONNECTED=ON"
    assert (env["PIP_NO_INDEX"], env["CARGO_NET_OFFLINE"]) == ("1", "true")
    assert env["https_proxy"] == env["HTTP_PROXY"] == "http://127.0.0.1:9"
    assert "by variables only" in text
    assert "No space left" in text, "the kernel's own reason"


def test_the_command_never_runs_with_the_network_on(tmp_path: Path) -> None:
    done = in_a_system_that_refuses(sys.executable, "-I", str(nonet.__file__), "touch", str(tmp_path / "ran"))
    assert done.returncode == nonet.REFUSED
    assert "no network namespace" in done.stderr
    assert not (tmp_path / "ran").exists()
