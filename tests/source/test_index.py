"""Finding a locked file on indexes of several kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from source_help import DiskIndex, locked, make_wheel, send, served

from orchestrator.errors import SourceError
from orchestrator.source.index import IndexConfig, find, listed, redacted

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path


def test_finds_a_file_by_name_and_hash(disk_index: DiskIndex, tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "one", "demo", "1.0")
    two = make_wheel(tmp_path / "two", "demo", "2.0")
    disk_index.list("demo", one, two)
    assert find(locked(two, version="2.0")) == two.as_uri()


def test_an_sdist_is_found_under_either_spelling(disk_index: DiskIndex, tmp_path: Path) -> None:
    sdist = tmp_path / "two_words-1.0.tar.gz"
    sdist.write_bytes(b"x")
    disk_index.list("two-words", sdist)
    assert find(locked(sdist, name="two-words")) == sdist.as_uri()


def test_another_index_is_asked_when_the_first_has_other_bytes(disk_index: DiskIndex, tmp_path: Path) -> None:
    bad = make_wheel(tmp_path / "bad", "demo", text="bad")
    good = make_wheel(tmp_path / "good", "demo", text="good")
    disk_index.list("demo", bad)
    config = IndexConfig((disk_index.url,), (str(good.parent),))
    assert find(locked(good), config=config) == good.as_uri()
    with pytest.raises(SourceError, match=f"has one with sha256 {locked(bad).sha256}"):
        find(locked(good), config=IndexConfig((disk_index.url,), ()))


def test_a_missing_file_says_where_it_was_looked_for(disk_index: DiskIndex, tmp_path: Path) -> None:
    wheel = locked(make_wheel(tmp_path, "demo"))
    disk_index.list("other")
    with pytest.raises(SourceError, match=r"no package index has demo-1\.0") as caught:
        find(wheel)
    assert disk_index.url in str(caught.value.hint)
    with pytest.raises(SourceError, match="asked: none"):
        find(wheel, config=IndexConfig((), ()))
    with pytest.raises(SourceError, match="no package index"):
        find(wheel, config=IndexConfig((), (str(tmp_path / "not there"),)))


def test_an_index_that_does_not_answer_is_named_and_does_not_hide_others(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "demo")
    dead = "http://127.0.0.1:9/simple"
    config = IndexConfig((dead,), (str(tmp_path),))
    assert find(locked(wheel), config=config) == wheel.as_uri()
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:9.* cannot be asked"):
        find(msgspec.structs.replace(locked(wheel), file="other.whl"), config=config)


def test_an_index_over_http_with_json_pages_and_a_yanked_file(tmp_path: Path) -> None:
    wheel = locked(make_wheel(tmp_path, "demo"))
    page = msgspec.json.encode(
        {
            "meta": {"api-version": "1.0"},
            "name": "demo",
            "files": [
                {
                    "filename": wheel.file,
                    "url": f"../../f/{wheel.file}",
                    "hashes": {"sha256": wheel.sha256},
                    "yanked": "broken",
                }
            ],
        }
    )

    def answer(request: BaseHTTPRequestHandler, count: int) -> None:
        del count
        request.send_response(200 if request.path == "/simple/demo/" else 404)
        request.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        request.send_header("Content-Length", str(len(page)))
        request.end_headers()
        request.wfile.write(page)

    with served(answer) as (url, _):
        config = IndexConfig((f"{url}/simple",), ())
        assert find(wheel, config=config) == f"{url}/f/{wheel.file}"
        (link,) = listed("demo", f"{url}/simple", config=config)
        assert (link.version, link.sha256) == ("1.0", wheel.sha256)


def test_an_index_that_is_broken_has_nothing(tmp_path: Path) -> None:
    wheel = locked(make_wheel(tmp_path, "demo"))
    with served(lambda request, _: send(request, b"", status=500)) as (url, _), pytest.raises(SourceError):
        find(wheel, config=IndexConfig((url,), ()))


@pytest.mark.parametrize(
    ("status", "told"), [(500, True), (503, True), (401, True), (404, False), (403, False)]
)
def test_an_index_in_trouble_is_not_one_without_files(
    status: int, *, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with served(lambda request, _: send(request, b"", status=status)) as (url, _):
        config = IndexConfig((url,), ())
        if told:
            with pytest.raises(SourceError, match=f"cannot be asked: .*{status}"):
                list(listed("demo", url, config=config))
        else:
            assert list(listed("demo", url, config=config)) == []
    assert [record for record in caplog.records if "(404)" in record.getMessage()] == []


def test_what_a_page_says_of_a_file(disk_index: DiskIndex, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "demo")
    page = disk_index.root / "simple/demo/index.html"
    page.parent.mkdir(parents=True)
    page.write_text(
        f'<a href="{wheel.as_uri()}#sha256={locked(wheel).sha256.upper()}" data-yanked="">x</a>'
        f'<a href="{wheel.as_uri()}#sha256=nonsense" data-requires-python="&gt;=3.10">x</a>'
    )
    taken, kept = sorted(
        listed("demo", disk_index.url, config=IndexConfig((disk_index.url,), ())),
        key=lambda link: not link.yanked,
    )
    assert (taken.sha256, taken.yanked, taken.requires_python) == (locked(wheel).sha256, True, None)
    assert (kept.sha256, kept.yanked, kept.requires_python) == (None, False, ">=3.10")


def test_passwords_are_not_shown() -> None:
    assert redacted("https://me:secret@host.example:1/x") == "https://***@host.example:1/x"
    assert redacted("https://host.example/x@y") == "https://host.example/x@y"
