"""pip's own configuration holds."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import SourceError
from orchestrator.source.pipconfig import (
    IndexConfig,
    config_from,
    default_index,
    index_config,
    parse_config,
    tls_context,
)

if TYPE_CHECKING:
    from pathlib import Path

    from source_help import DiskIndex


def test_environment_beats_command_beats_global() -> None:
    text = (
        ":env:.index-url='https://env.example/simple'\n"
        "download.index-url='https://download.example/simple'\n"
        "download.timeout='7'\n"
        "global.index-url='https://global.example/simple'\n"
        "global.timeout='9'\n"
        "install.timeout='11'\n"
    )
    assert parse_config(text) == {"index-url": "https://env.example/simple", "timeout": "7"}


def test_odd_lines_of_pip_are_passed_over() -> None:
    text = "\nno equals sign\n=x\nglobal.x=unquoted words\n:env:.no-index=''\nglobal.a_b='1'\nnodot='1'\n"
    assert parse_config(text) == {"a-b": "1"}


def test_lists_of_several_lines_are_split_and_the_main_index_is_first() -> None:
    options = {
        "extra-index-url": "\nhttps://a.example/s\nfile:///b",
        "find-links": "/w https://c.example/",
        "proxy": "http://proxy.example:3128",
    }
    config = config_from(options, default_index="https://main.example/s")
    assert config.index_urls == ("https://main.example/s", "https://a.example/s", "file:///b")
    assert config.find_links == ("/w", "https://c.example/")
    assert config.proxy == "http://proxy.example:3128"


@pytest.mark.parametrize(("told", "urls"), [("1", ()), ("True", ()), ("0", ("https://m.example",))])
def test_no_index_leaves_only_find_links(told: str, urls: tuple[str, ...]) -> None:
    config = config_from({"no-index": told, "find-links": "/w"}, default_index="https://m.example")
    assert (config.index_urls, config.find_links) == (urls, ("/w",))


@pytest.mark.parametrize(("told", "seconds"), [("180", 180.0), ("x", 60.0), ("-1", 60.0), ("2.5", 2.5)])
def test_timeout(told: str, seconds: float) -> None:
    assert config_from({"default-timeout": told}, default_index="").timeout_s == seconds


def test_pip_is_asked(disk_index: DiskIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/one /two")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "host.example")
    index_config.cache_clear()
    assert index_config() == IndexConfig((disk_index.url,), ("/one", "/two"), ("host.example",))
    (tmp_path / "pip.conf").write_text("[global]\nextra-index-url = file:///a\n  file:///b\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    index_config.cache_clear()
    assert index_config().index_urls == (disk_index.url, "file:///a", "file:///b")


def test_broken_pip_configuration_is_told(
    disk_index: DiskIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del disk_index
    (tmp_path / "pip.conf").write_text("no section\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    index_config.cache_clear()
    with pytest.raises(SourceError, match="configuration"):
        index_config()


def test_pip_knows_its_default_index() -> None:
    assert default_index().startswith("https://")
    assert default_index().endswith("/simple")


def test_only_trusted_hosts_need_no_certificate(tmp_path: Path) -> None:
    config = IndexConfig((), (), ("inside.example",))
    assert tls_context(config, host="inside.example").verify_mode is ssl.CERT_NONE
    assert tls_context(config, host="outside.example").verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(SourceError, match="certificates"):
        tls_context(IndexConfig((), (), cert=str(tmp_path / "none.pem")))
