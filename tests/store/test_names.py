"""Names are ours only in the very form that we give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_help import KEY, RUN

from orchestrator.source.git import mirror_of
from orchestrator.store import atomic, names
from orchestrator.store.lease import new_run
from orchestrator.store.quarantine import quarantine

if TYPE_CHECKING:
    from orchestrator.store.home import Home


def test_what_is_given_is_known(home: Home) -> None:
    assert names.is_run(new_run())
    assert names.is_run(RUN)
    assert names.is_key(KEY)
    assert names.is_mirror(mirror_of("https://example.org/x", home).name)
    assert not any(map(names.is_mirror, (KEY, ".git", f"{KEY[1:]}.git", f"{KEY}.git.git", f"{KEY}.git\n")))
    assert names.is_pip_temporary(".pip-a_9zzzzz")
    assert atomic.is_temporary(atomic.temporary_name(atomic.temporary_name("odd\nname")))
    for parent in (home.artifacts, home.rejected, home.downloads):
        (parent / KEY).mkdir(parents=True)
        assert quarantine(home, parent / KEY, "why") is not None
    assert len(list(home.quarantine.iterdir())) == 6
    assert all(names.is_quarantined(path.name) for path in home.quarantine.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "",
        "photos",
        ".git",
        ".pip",
        ".pip-",
        ".pip-cache-of-mine",
        ".parts",
        ".notes.tmp-old",
        ".tmp-0123456789ab",
        "x.tmp-0123456789ab",
        "20260102-030405",
        "20260102-030405-678",
        "20260102-030405-678-9abcd",
        "20260102-030405-678-9abc\n",
        "20260102T030405Z",
        "20260102T030405Z.photos.x.0123ab",
        "20260102T030405Z.artifacts.x.0123ab.jpg",
        "ab" * 31,
        "AB" * 32,
        "ab" * 32 + "\n",
        "ab" * 32 + ".jpg",
    ],
)
def test_what_others_give_is_not(name: str) -> None:
    for ours in (
        names.is_run,
        names.is_key,
        names.is_pip_temporary,
        names.is_quarantined,
        atomic.is_temporary,
    ):
        assert not ours(name)
