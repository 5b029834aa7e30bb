"""Packages of an index: what a name asks for, and how its wheel comes."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING

import pytest
from devicefiles import data
from source_help import DiskIndex, locked, send, send_rest, served
from wheelhouse import make_wheel

from orchestrator.audit.question import Question
from orchestrator.errors import MismatchError, NoSpaceError, SourceError, SpecError, StoreError
from orchestrator.inspect.indexed import IndexName, fetch_index_wheel, parse_index_name
from orchestrator.inspect.specs import audit_spec
from orchestrator.model.arch import Device
from orchestrator.report.events import Event, Note, Progress
from orchestrator.source import disk, download
from orchestrator.source.index import index_config
from orchestrator.store.stamps import STAMP

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from orchestrator.store.home import Home

NAME = IndexName("flash-attn", "1.0")


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("vllm==0.33.0", "vllm==0.33.0"),
        ("Flash_Attn==2.8.3", "flash-attn==2.8.3"),
        ("vLLM[audio, flashinfer] == 0.33.0", "vllm==0.33.0"),
        ("torch==2.14.1+cu130", "torch==2.14.1+cu130"),
        ("torch==2.14.1+CU130", "torch==2.14.1+cu130"),
        ("a.b==v1.0.0-rc1", "a-b==1.0.0rc1"),
    ],
)
def test_names(spec: str, name: str) -> None:
    assert str(parse_index_name(spec)) == name


@pytest.mark.parametrize(
    "spec", ["", "./x==1", "d/x==1", "gone.whl", "x.so.12", "a.cubin", "-x==1", "=1", "a b"]
)
def test_paths(spec: str) -> None:
    assert parse_index_name(spec) is None


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        ("vllm", "vllm==VERSION, or the path"),
        ("vllm=0.33.0", "vllm==0.33.0"),
        ("vllm>=0.33", "vllm==0.33"),
        ("vllm~=0.33.1", "vllm==0.33.1"),
        ("vllm==0.33.*", "vllm==0.33"),
        ("vllm===0.33.0", "vllm==0.33.0"),
        ("vllm==0.33.0,<1", "vllm==0.33.0"),
        ("vllm==0.33.0; python_version > '3'", "vllm==0.33.0"),
        ("vllm[x2]=0.33", "vllm==0.33"),
        ("vllm@0.33.0", "vllm==0.33.0"),
        ("vllm @ file:///x.whl", "vllm==VERSION"),
        ("vllm==", "vllm==VERSION"),
        ("vllm==latest", "vllm==VERSION"),
        ("vllm==1.0x", "vllm==VERSION"),
    ],
)
def test_near_misses_say_what_to_write(spec: str, advice: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_index_name(spec)
    assert str(caught.value.hint).startswith(f"write {advice}")
    assert (caught.value.exit_code, caught.value.where) == (3, spec)


def fetched(home: Home, heard: list[Event] | None = None) -> Path:
    told: list[Event] = [] if heard is None else heard
    return fetch_index_wheel(NAME, platform="aarch64", python="3.12", home=home, emit=told.append)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, "flash-attn", {"flash_attn/_C.so": data("native.so")})[1]


def test_a_wheel_comes_once_and_is_verified(disk_index: DiskIndex, wheel: Path, home: Home) -> None:
    disk_index.list("flash-attn", wheel)
    heard: list[Event] = []
    path = fetched(home, heard)
    assert path == home.downloads / locked(wheel).sha256 / wheel.name
    assert path.read_bytes() == wheel.read_bytes()
    assert [type(event) for event in heard] == [Note, Progress]
    assert f"flash-attn==1.0 is {wheel.name}" in str(heard[0])
    heard.clear()
    assert fetched(home, heard) == path
    assert [type(event) for event in heard] == [Note]
    assert (path.parent / STAMP).exists()  # gc knows that it is of use
    home.existing()  # and the folder is known as ours


def test_other_bytes_than_the_index_says(disk_index: DiskIndex, wheel: Path, home: Home) -> None:
    disk_index.list("flash-attn", wheel, sha256="0" * 64)
    with pytest.raises(MismatchError, match="not the one that the index lists") as caught:
        fetched(home)
    assert caught.value.exit_code == 5
    assert [path for path in home.downloads.rglob("*") if path.is_file()] == []


def page(url: str, wheel: Path, *, attributes: str = "", sha256: str = "") -> bytes:
    return f'<a href="{url}/{wheel.name}{sha256}" {attributes}>x</a>'.encode()


def send_page(request: BaseHTTPRequestHandler, body: bytes) -> None:
    request.send_response(200)
    request.send_header("Content-Type", "text/html")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def test_without_a_sha256_it_is_kept_by_its_own(
    disk_index: DiskIndex, wheel: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    del disk_index

    def answer(request: BaseHTTPRequestHandler, count: int) -> None:
        del count
        if request.path.endswith("/flash-attn/"):
            send_page(
                request, page(f"http://{request.headers['Host']}/f", wheel, attributes='data-yanked="bad"')
            )
        else:
            send(request, wheel.read_bytes())

    with served(answer) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        index_config.cache_clear()
        heard: list[Event] = []
        path = fetched(home, heard)
    assert path == home.downloads / locked(wheel).sha256 / wheel.name
    assert isinstance(heard[0], Note)
    assert (heard[0].level, "took back" in heard[0].text) == ("warning", True)


def test_a_wheel_in_a_folder_is_read_where_it_lies(
    disk_index: DiskIndex, wheel: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    del disk_index
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    index_config.cache_clear()
    assert fetched(home) == wheel
    assert not home.root.exists()


def test_no_such_project(disk_index: DiskIndex, home: Home) -> None:
    with pytest.raises(SpecError, match="no package index has a project 'flash-attn'") as caught:
        fetched(home)
    assert disk_index.url in str(caught.value.hint)


def test_an_index_that_does_not_answer_is_no_missing_project(
    disk_index: DiskIndex, wheel: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    index_config.cache_clear()
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:9.* cannot be asked") as caught:
        fetched(home)
    assert caught.value.exit_code == 5
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", disk_index.url)
    index_config.cache_clear()
    disk_index.list("flash-attn", wheel)
    assert fetched(home).read_bytes() == wheel.read_bytes()


def test_two_at_once_download_once(
    disk_index: DiskIndex, wheel: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    del disk_index
    sha256 = f"#sha256={locked(wheel).sha256}"
    files: list[str] = []

    def answer(request: BaseHTTPRequestHandler, count: int) -> None:
        del count
        if request.path.endswith("/flash-attn/"):
            send_page(request, page(f"http://{request.headers['Host']}/f", wheel, sha256=sha256))
            return
        if request.headers["User-Agent"] == "sparkbuild" and "Range" not in request.headers:
            files.append(request.path)
        send(request, wheel.read_bytes())

    with served(answer) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        index_config.cache_clear()
        index_config()
        found: list[Path] = []
        threads = [threading.Thread(target=lambda: found.append(fetched(home))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [home.downloads / locked(wheel).sha256 / wheel.name] * 2
    assert len(files) == 3  # each asks for the size, one for the bytes


def test_a_stopped_download_goes_on(
    disk_index: DiskIndex, wheel: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    del disk_index
    content = wheel.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    broken = True

    def answer(request: BaseHTTPRequestHandler, count: int) -> None:
        if request.path.endswith("/flash-attn/"):
            body = page(f"http://{request.headers['Host']}/f", wheel, sha256=f"#sha256={sha256}")
            send_page(request, body)
        elif broken and count > 1:
            send(request, content[:1000], told=len(content))
            request.close_connection = True
        else:
            send_rest(request, content)

    monkeypatch.setattr(download, "RETRY_WAITS_S", ())
    with served(answer) as (url, ranges):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        index_config.cache_clear()
        with pytest.raises(SourceError, match="the connection ended"):
            fetched(home)
        assert (home.downloads / ".parts" / sha256).read_bytes() == content[:1000]
        broken = False
        assert fetched(home).read_bytes() == content
    assert ranges[-1] == "bytes=1000-"


def test_a_full_disk_and_one_that_cannot_be_written(
    disk_index: DiskIndex, wheel: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_index.list("flash-attn", wheel)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "free_bytes", lambda _: 10)
        with pytest.raises(NoSpaceError) as full:
            fetched(home)
    assert full.value.exit_code == 4
    home.locks.rename(home.root / "logs")
    home.locks.write_text("in the way")
    with pytest.raises(StoreError):
        fetched(home)


def test_a_spec_by_name_is_audited(disk_index: DiskIndex, wheel: Path, home: Home) -> None:
    disk_index.list("flash-attn", wheel)
    question = Question(devices=(Device(12, 1),))
    report = audit_spec("Flash_Attn==1", question, platform="aarch64", python="3.12", home=home)
    assert (report.spec, report.verdict) == ("Flash_Attn==1", "pass")
    assert [module.verdict for module in report.devices[0].modules] == ["native"]


@pytest.mark.network
def test_a_real_wheel_for_another_machine(home: Home) -> None:
    name = IndexName("nvidia-cuda-cuobjdump", "13.5.37")
    path = fetch_index_wheel(name, platform="linux-aarch64", python=None, home=home)
    assert path.name.endswith("aarch64.whl")
    assert fetch_index_wheel(name, platform="manylinux_2_28_aarch64", python="3.13", home=home) == path
