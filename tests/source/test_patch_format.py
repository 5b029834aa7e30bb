"""The text of patches: what is read, and what is called malformed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import PatchError
from orchestrator.source.patch_format import parse_patch, read_patch

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "Why: it must\nUpstream: none known\nVersions: 1.*\nRemove-when: never\n\n"
HUNK = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"


def parse(text: str) -> list[str]:
    return [file.path for file in parse_patch("p", (HEADER + text).encode()).files]


def test_the_header() -> None:
    text = "From: someone\nWhy: one\n  and two\n\nFree text: here\nVersions: >=1\n\n--- a/x\n+++ b/x\n" + HUNK
    patch = parse_patch("p", text.encode())
    assert patch.header == {"From": "someone", "Why": "one and two", "Versions": ">=1"}


@pytest.mark.parametrize("text", ["", "Upstream: x\n\n", "Why:\n\n", "why: x\n\n"])
def test_a_patch_must_say_why(text: str) -> None:
    with pytest.raises(PatchError, match="does not say why"):
        parse_patch("p", f"{text}--- a/x\n+++ b/x\n{HUNK}".encode())


def test_the_digest_is_of_the_diffs() -> None:
    diff = f"--- a/x\n+++ b/x\n{HUNK}"
    first = parse_patch("p", (HEADER + diff).encode())
    assert parse_patch("q", f"Why: a better reason\n{diff}".encode()).digest == first.digest
    assert parse_patch("p", (HEADER + diff.replace("+c", "+d")).encode()).digest != first.digest


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("a/d/x", "b/d/x", "d/x"),
        ("d/x", "d/x", "d/x"),
        ("x", "x", "x"),
        ("p-1.0.orig/d/x", "p-1.0/d/x", "d/x"),
        ("/dev/null", "b/d/x", "d/x"),
        ("a/d/x", "/dev/null", "d/x"),
        ("a/with space\t2026-01-01 00:00:00", "b/with space\t2026-01-02", "with space"),
        ("a/b/a/x", "b/b/a/x", "b/a/x"),
    ],
)
def test_paths(old: str, new: str, path: str) -> None:
    assert parse(f"--- {old}\n+++ {new}\n{HUNK}") == [path]


@pytest.mark.parametrize(
    "path", ["a/../x", "/etc/x", "a/d/../../x", "a//x", "a/.git/config", 'a/"x', "a/./x", "a/.."]
)
def test_paths_that_lead_out(path: str) -> None:
    with pytest.raises(PatchError, match="malformed"):
        parse(f"--- {path}\n+++ {path.replace('a/', 'b/', 1)}\n{HUNK}")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "no diff"),
        ("--- a/x\n", 1, "no diff"),
        ("--- a/x\n+++ b/x\n", 7, "no hunk"),
        ("--- a/x\n+++ b/x\n@@ what @@\n", 7, "no hunk"),
        ("--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n a\n-b\n+c\n", 8, "ends too early"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\nb\n", 10, "begins with"),
        ("--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n+c\n", 11, "belongs to no hunk"),
        ("--- a/x\n+++ b/x\n@@ -1,1 +1,2 @@\n-a\n-b\n+c\n+d\n", 8, "counts"),
        ("--- a/x\n+++ b/y\n" + HUNK, 6, "two names"),
        ("--- a/x\n+++ b/x\n" + HUNK + "--- a/x\n+++ b/x\n" + HUNK, 12, "twice"),
        ("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", 6, "two names"),
        ("diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\n", 8, "not supported"),
        ("diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", 8, "not supported"),
        ("diff --git a/x b/x\nnew file mode 120000\nindex 0..1\n--- /dev/null\n", 7, "not supported"),
        ("diff --git a/x b/x\nindex 1..1\n", 6, "changes nothing"),
        (HUNK, 1, "no diff"),
        (f"--- a/x\n+++ b/x\n@@ -{'9' * 5000} +1 @@\n-a\n+b\n", 8, "too many digits"),
        (f"--- a/x\n+++ b/x\n@@ -1,1 +1,{'1' * 5000} @@\n-a\n+b\n", 8, "too many digits"),
        (f"--- a/{'d/' * 201}x\n+++ b/{'d/' * 201}x\n" + HUNK, 6, "more than 200 folders"),
        ("--- a/x\0y\n+++ b/x\0y\n" + HUNK, 6, "no path inside"),
    ],
)
def test_malformed(text: str, line: int, what: str) -> None:
    with pytest.raises(PatchError, match=re.escape(f"p:{line}: malformed patch") + f".*{what}") as caught:
        parse(text)
    assert caught.value.exit_code == 1
    assert caught.value.hint


def test_mail_of_git_is_read_with_its_signature() -> None:
    text = (
        "---\n x | 2 +-\n 1 file changed\n\n"
        "diff --git a/x b/x\nindex 1..2 100755\n--- a/x\n+++ b/x\n" + HUNK + "-- \n2.39.5\n\n"
    )
    assert parse(text) == ["x"]


def test_a_cut_blank_and_a_missing_last_newline_of_the_patch_file() -> None:
    (file,) = parse_patch("p", (HEADER + "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c").encode()).files
    assert file.hunks[0].old == (b"a\n", b"\n", b"b\n")
    assert file.hunks[0].new == (b"a\n", b"\n", b"c\n")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("Seen-at: none\n", ()),
        ("Seen-at: 2.14.0, 2.14.1\n", ("2.14.0", "2.14.1")),
        (f"Seen-at: 1.0.post1,\n {'ab' * 20}\n", ("1.0.post1", "ab" * 20)),
    ],
)
def test_where_it_was_judged(text: str, names: tuple[str, ...]) -> None:
    data = f"Why: a reason\n{text}\n--- a/x\n+++ b/x\n{HUNK}".encode()
    assert parse_patch("p", data).seen_at == names


@pytest.mark.parametrize("text", ["abcdef0", "somewhere", "1.0,", "1.0 1.1", "AB" * 20])
def test_a_short_commit_or_other_words_are_no_place(text: str) -> None:
    data = f"Why: a reason\nSeen-at: {text}\n\n--- a/x\n+++ b/x\n{HUNK}".encode()
    with pytest.raises(PatchError, match="malformed patch: Seen-at names"):
        parse_patch("p", data)


def test_reading_a_file(tmp_path: Path) -> None:
    path = tmp_path / "0001-do.patch"
    path.write_text(HEADER + "--- a/x\n+++ b/x\n" + HUNK)
    patch = read_patch(path)
    assert (patch.name, patch.where) == ("0001-do", str(path))
    with pytest.raises(PatchError, match="cannot be read"):
        read_patch(tmp_path / "none.patch")
