"""Where no emulation can be had, a person learns what is in the way."""

from __future__ import annotations

import platform
import sys

import pytest
from emulation import obstacle


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="for this machine only")
def test_tools_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "apt-get, apt-config, dpkg-deb, tar, unshare, chroot, not found here" in obstacle()


def test_another_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "on aarch64; the emulation is for Linux on x86_64" in obstacle()
