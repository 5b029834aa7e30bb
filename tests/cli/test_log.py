"""`sparkbuild log`: which log is shown, how it is followed, and what its units cost."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from store_help import RUN, start, stop, wait_ready

from orchestrator.cli.log import command
from orchestrator.errors import SparkbuildError, StoreError, UnknownNameError, UsageError
from orchestrator.jobs.units import How, Kind, Record, Unit
from orchestrator.report.tables import units_table
from orchestrator.store.home import Home
from orchestrator.store.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OTHER_RUN = "20260102-040506-679-9abd"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("SPARKBUILD_HOME", str(tmp_path / "home"))
    found = Home(tmp_path / "home")
    found.claim()
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def refused(*words: str) -> SparkbuildError:
    error = run(*words).exception
    assert isinstance(error, SparkbuildError)
    return error


def write_log(home: Home, name: str, data: bytes, *, run_name: str = RUN, age_s: float = 0) -> Path:
    path = home.logs / run_name / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    then = 1_800_000_000 - age_s
    os.utime(path, (then, then))
    return path


def record(
    source: str, how: How, cpu_s: float, *, kind: Kind = "compile", peak: int = 0, images: str = ""
) -> Record:
    unit = Unit(7, "kernels", "/w/csrc", kind, "/cuda/bin/nvcc", ("-c", source, "-o", "x.o"))
    made = tuple(images.split())
    return Record(unit, how, cpu_s=cpu_s, wall_s=cpu_s / 2, peak_bytes=peak, images=made, tries=1)


RECORDS = (
    record("csrc/small.cu", "ran", 3.25, images="sm_121a"),
    record("csrc/old.cu", "hit", 0.04),
    record("csrc/quantization/marlin/sm80_kernel_float16_fe2m1f_float16_nvfp4.cu", "ran", 4000, peak=3 << 30),
    record("csrc/both.cu", "hit", 0.02, images="compute_121a sm_120f sm_121a"),
    record("csrc/bad_sm90.cu", "refused", 0, images="sm_90a"),
    record("", "ran", 1.5, kind="link"),
)


def write_units(log: Path, records: Sequence[Record]) -> Path:
    path = log.with_suffix(".units.jsonl")
    path.write_text("".join(json.dumps(each.to_json()) + "\n" for each in records))
    return path


def test_the_log_written_to_last_is_shown_to_the_byte(home: Home) -> None:
    write_log(home, "kernels", b"old\n", run_name=OTHER_RUN, age_s=60)
    newest = write_log(home, "kernels", b"\xff\x1b[1mnew\r\nno newline")
    write_log(home, "pytorch", b"another\n", run_name=OTHER_RUN)
    result = run("kernels")
    assert result.exit_code == 0
    assert result.stdout_bytes == b"\xff\x1b[1mnew\r\nno newline"
    assert result.stderr == f"{newest}\n"


def test_a_name_without_a_log_is_answered_with_those_that_have_one(home: Home) -> None:
    write_log(home, "kernels", b"")
    write_log(home, "vllm", b"", run_name=OTHER_RUN)
    error = refused("zzz")
    assert isinstance(error, UnknownNameError)
    assert str(error) == f"{home.logs}: there is no log named 'zzz'\n  hint: known: kernels, vllm"
    assert refused("kernel").hint == "did you mean kernels?"


def test_only_logs_in_folders_of_runs_are_looked_at(home: Home, tmp_path: Path) -> None:
    assert refused("kernels").hint == "known: none"
    write_log(home, "kernels", b"x", run_name="album")
    write_log(home, "secret", b"x", run_name=RUN).with_suffix(".txt").write_bytes(b"x")
    (home.logs / RUN / "kernels.log").mkdir()
    (home.logs / OTHER_RUN).write_bytes(b"a file")
    (tmp_path / "outside.log").write_bytes(b"x")
    for name in ("kernels", "album", "../../../outside", "*", str(tmp_path / "outside")):
        assert isinstance(refused(name), UnknownNameError)


def test_nothing_is_made_where_there_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKBUILD_HOME", str(tmp_path / "none"))
    assert isinstance(refused("kernels"), UnknownNameError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("leased", [None, OTHER_RUN])
def test_following_ends_at_once_when_the_run_is_over(home: Home, leased: str | None) -> None:
    write_log(home, "kernels", b"all\n")
    if leased is None:
        assert run("kernels", "-f").stdout == "all\n"
        return
    with Lease(home, leased):
        assert run("kernels", "-f").stdout == "all\n"


def follow(home: Home, name: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"SPARKBUILD_HOME": str(home.root), "PYTHONPATH": path}
    words = [sys.executable, "-P", "-m", "orchestrator", "log", name, "--follow"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def test_following_shows_what_is_added_until_the_run_dies(home: Home) -> None:
    writer = start("hold", home, RUN)
    wait_ready(writer)
    log = write_log(home, "kernels", b"first\n")
    reader = follow(home, "kernels")
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"first\n"
        with log.open("ab", buffering=0) as stream:
            stream.write(b"second\n")
            assert reader.stdout.readline() == b"second\n"
            assert reader.poll() is None
            stream.write(b"last words")
        stop(writer)
        out, err = reader.communicate(timeout=60)
    finally:
        reader.kill()
        writer.kill()
    assert (reader.returncode, out, err.decode()) == (0, b"last words", f"{log}\n")


def test_ctrl_c_ends_following_and_not_the_run(home: Home) -> None:
    write_log(home, "kernels", b"first\n")
    with Lease(home, RUN):
        reader = follow(home, "kernels")
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"first\n"
            reader.send_signal(signal.SIGINT)
            _, err = reader.communicate(timeout=60)
        finally:
            reader.kill()
    assert (reader.returncode, err.count(b"\n")) == (130, 1)


def test_units_by_cost_with_totals(home: Home) -> None:
    log = write_log(home, "kernels", b"never shown")
    write_units(log, RECORDS)
    result = run("kernels", "--units")
    assert (result.exit_code, result.stderr) == (0, f"{log}\n")
    head, *rows, last = result.stdout.splitlines()
    assert head.split() == ["CPU", "wall", "peak", "how", "images", "unit"]
    names = ["marlin/sm80_kernel_float16_fe2m1f_float16_nvfp4.cu", "csrc/small.cu", "x.o", "csrc/old.cu"]
    assert [row.split()[-1] for row in rows] == [*names, "csrc/both.cu", "csrc/bad_sm90.cu"]
    assert rows[0].split()[:-1] == ["1", "h", "06", "min", "33", "min", "20", "s", "3.0", "GiB", "ran", "—"]
    assert rows[1].split()[:-1] == ["3.2", "s", "1.6", "s", "—", "ran", "sm_121a"]
    assert "  hit      compute_121a, sm_120f, sm_121a  csrc/both.cu" in rows[4]
    assert last == "6 units, 1 h 06 min of CPU, 50% of compilations from the compiler cache"


def test_nothing_of_the_units_is_cut_off_in_80_columns() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, highlight=False).print(units_table(RECORDS))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert "…" not in stream.getvalue()
    assert "refused" in stream.getvalue()
    last_column = lines[0].index("unit")
    shown = "".join(line[last_column:] for line in lines[1:])
    assert shown == "".join(each.unit.name for each in RECORDS)


def test_units_as_json_are_the_records(home: Home) -> None:
    log = write_log(home, "kernels", b"")
    write_units(log, RECORDS)
    found = json.loads(run("kernels", "--json").stdout)
    assert found == json.loads(run("kernels", "--units", "--json").stdout)
    assert (found["schema"], found["log"]) == ("sparkbuild.units/1", str(log))
    assert found["units"] == [RECORDS[index].to_json() for index in (2, 0, 5, 1, 3, 4)]


def test_totals_of_nothing_that_ended_well_name_no_rate(home: Home) -> None:
    write_units(write_log(home, "kernels", b""), [record("a.cu", "failed", 61)])
    assert run("kernels", "--units").stdout.splitlines()[-1] == "1 unit, 1 min 01 s of CPU"


@pytest.mark.parametrize("option", ["--units", "--json"])
def test_a_run_without_units_and_following_them_are_told(home: Home, option: str) -> None:
    older = write_log(home, "kernels", b"", run_name=OTHER_RUN, age_s=60)
    write_units(older, RECORDS)
    newest = write_log(home, "kernels", b"")
    error = refused("kernels", option)
    assert (type(error), error.where) == (UsageError, str(newest))
    assert "when its build ends" in (error.hint or "")
    assert isinstance(refused("kernels", option, "-f"), UsageError)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"7",
        b'{"unit": "a.cu"}',
        b"\xff",
        json.dumps(RECORDS[0].to_json() | {"how": "stolen"}).encode(),
        json.dumps(RECORDS[0].to_json() | {"cpu_s": "much"}).encode(),
    ],
)
def test_a_damaged_record_is_told_with_its_line(home: Home, line: bytes) -> None:
    path = write_units(write_log(home, "kernels", b""), RECORDS[:2])
    path.write_bytes(path.read_bytes() + line + b"\n")
    error = refused("kernels", "--units")
    assert isinstance(error, StoreError)
    assert error.where == f"{path}:3"
