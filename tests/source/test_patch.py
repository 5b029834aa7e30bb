"""Patches: judged on top of each other, without fuzz, applied all or none; compared with git apply."""

from __future__ import annotations

import difflib
import os
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from powers import no_file_larger_than
from source_help import make_repository, run_git, tree_of

from orchestrator.errors import PatchError
from orchestrator.source.patch import Moved, apply, apply_to, judge
from orchestrator.source.patch_format import Patch, parse_patch
from orchestrator.source.patch_write import Blob

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "".join(f"line {number}\n" for number in range(1, 41))


def diff(old: str, new: str, *, path: str = "x", context: int = 3) -> str:
    """Return a unified diff, with git's word for a missing newline."""
    made = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=context
    )
    told = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + told for line in made)


def patch(text: str, name: str = "p") -> Patch:
    return parse_patch(name, f"Why: test\n\n{text}".encode())


def result(old: str | None, text: str) -> str | None:
    blob = None if old is None else Blob(old.encode())
    files, _ = apply_to(patch(text), lambda _: blob)
    (found,) = files.values()
    return None if found is None else found.data.decode()


def test_a_change_in_place(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(TEXT)
    (tmp_path / "x").chmod(0o755)
    os.utime(tmp_path / "x", (5, 5))
    new = TEXT.replace("line 7\n", "seven\n").replace("line 30\n", "")
    (judged,) = apply(tmp_path, [patch(diff(TEXT, new))])
    assert (judged.state, judged.moved) == ("applies", ())
    assert tree_of(tmp_path) == {"x": new}
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o755
    assert (tmp_path / "x").stat().st_mtime == 5


def test_files_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("gone\n")
    text = (
        "--- /dev/null\n+++ b/new/dir/file\n@@ -0,0 +1 @@\n+hello\n"
        "--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
        "diff --git a/run.sh b/run.sh\nnew file mode 100755\n"
        "--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n+#!\n"
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"
    )
    apply(tmp_path, [patch(text)])
    assert tree_of(tmp_path) == {"new/dir/file": "hello\n", "run.sh": "#!\n", "empty": ""}
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o755


def test_a_mode_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    chmod = patch("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n")
    apply(tmp_path, [chmod])
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o755


@pytest.mark.parametrize(("old", "new"), [("a\nb", "a\nc"), ("a\nb\n", "a\nb"), ("a", "a\n"), ("a", "a\nb")])
def test_a_missing_last_newline(old: str, new: str) -> None:
    assert result(old, diff(old, new)) == new
    with pytest.raises(PatchError, match="newline"):
        result(old + "\n" if not old.endswith("\n") else old[:-1], diff(old, new))


def test_carriage_returns_are_bytes_like_others() -> None:
    old, new = "a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"
    assert result(old, diff(old, new)) == new
    with pytest.raises(PatchError, match=r"expected 'a' at line 1, found 'a\\r'"):
        result(old, diff("a\nb\nc\n", "a\nB\nc\n"))


def test_a_hunk_that_moved_is_placed_only_where_it_is_unique() -> None:
    text = diff(TEXT, TEXT.replace("line 20\n", "twenty\n"))
    moved = "new\n" * 5 + TEXT
    files, found = apply_to(patch(text), lambda _: Blob(moved.encode()))
    assert files["x"] == Blob(moved.replace("line 20\n", "twenty\n").encode())
    assert found == (Moved("x", 1, 5),)
    with pytest.raises(PatchError, match="not at line 17, and its context stands in 2 places"):
        result("new\n" + TEXT + TEXT, text)


def test_a_repeated_block_is_taken_where_the_hunk_says() -> None:
    block = "a\nb\nc\n"
    old, new = block * 5, block * 2 + "a\nB\nc\n" + block * 2
    assert result(old, diff(old, new, context=1)) == new


def test_after_a_moved_hunk_a_place_must_be_unique() -> None:
    """Else the second hunk could land in a look-alike that happens to stand at its line."""
    block = "a\nb\nc\n"
    old = TEXT + block + "end\n" + block
    new = old.replace("line 5\n", "five\n").replace(block + "end", "a\nB\nc\nend")
    text = diff(old, new, context=1)
    assert result(old, text) == new
    with pytest.raises(PatchError, match=r"hunk 2: .* 2 places"):
        result("moved\n" + old, text)


def test_a_hunk_without_context_is_refused() -> None:
    with pytest.raises(PatchError, match="without context"):
        result("a\nb\n", "--- a/x\n+++ b/x\n@@ -1,0 +2 @@\n+new\n")
    assert result("", "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+new\n") == "new\n"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            diff(TEXT, TEXT + "z\n").replace("line 39", "line 93"),
            "hunk 1: expected 'line 93' at line 39, found",
        ),
        (diff(TEXT + "more\n", TEXT + "z\n"), "expected 'more' at line 41, found the end of the file"),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "creates x, which is there"),
        ("--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "no file y"),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n", "holds more than it removes"),
        ("--- a/link\n+++ b/link\n@@ -1 +1 @@\n-a\n+b\n", "symbolic link"),
        ("--- /dev/null\n+++ b/out/x\n@@ -0,0 +1 @@\n+a\n", "symbolic link"),
        ("--- a/dir\n+++ b/dir\n@@ -1 +1 @@\n-a\n+b\n", "no plain file"),
    ],
)
def test_conflicts_leave_the_tree_untouched(tmp_path: Path, text: str, match: str) -> None:
    tree = tmp_path / "tree"
    (tree / "dir").mkdir(parents=True)
    (tree / "x").write_text(TEXT)
    (tree / "good").write_text("good\n")
    (tree / "link").symlink_to("x")
    (tree / "out").symlink_to("..")
    before = tree_of(tree)
    good = patch(diff("good\n", "better\n", path="good"), "0001-good")
    with pytest.raises(PatchError, match=f"patch 0002-bad does not apply: .*{match}") as caught:
        apply(tree, [good, patch(text, "0002-bad")])
    assert str(caught.value.where).startswith("0002-bad:")
    assert tree_of(tree) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tree"]


def test_patches_stand_on_each_other(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(TEXT)
    two = TEXT.replace("line 9\n", "nine\n")
    three = two.replace("nine\n", "NINE\n")
    stack = [patch(diff(TEXT, two), "1"), patch(diff(two, three), "2")]
    assert [one.state for one in judge(tmp_path, stack)] == ["applies", "applies"]
    assert tree_of(tmp_path) == {"x": TEXT}
    assert [one.state for one in judge(tmp_path, stack[::-1])] == ["conflict", "applies"]
    apply(tmp_path, stack)
    assert tree_of(tmp_path) == {"x": three}


def test_one_that_does_not_apply_keeps_no_other_from_being_judged(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(TEXT)
    (tmp_path / "y").write_text("y\n")
    missing = TEXT.replace("line 9\n", "gone\n")
    stack = [
        patch(diff(missing, missing.replace("gone", "nine")), "1-bad"),
        patch(diff(TEXT, TEXT.replace("line 30\n", "thirty\n"), context=1), "2-elsewhere-in-the-file"),
        patch(diff("nine\n", "NINE\n"), "3-stands-on-1"),
        patch(diff("y\n", "z\n", path="y"), "4-another-file"),
        patch(diff("z\n", "Z\n", path="y"), "5-stands-on-4"),
        patch(diff("z\n", "q\n", path="y"), "6-bad-by-itself"),
    ]
    judged = judge(tmp_path, stack)
    assert [one.state for one in judged] == [
        *("conflict", "applies", "unjudged", "applies", "applies", "conflict"),
    ]
    assert judged[2].reason == "does not apply without 1-bad, which changes x too"
    with pytest.raises(PatchError, match=r"patch 1-bad .* \(and 2 more: 3-stands-on-1, 6-bad-by-itself\)"):
        apply(tmp_path, stack)
    assert tree_of(tmp_path) == {"x": TEXT, "y": "y\n"}


def test_what_a_recipe_leaves_out_is_not_tried(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\n")
    stack = [patch(diff("a\n", "b\n"), "1"), patch(diff("a\n", "c\n"), "2")]
    first, second = judge(tmp_path, stack, left_out={"1": "for 2.0 only"})
    assert (first.state, first.reason, second.state) == ("out-of-versions", "for 2.0 only", "applies")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("new\n" * 9 + TEXT.replace("line 7\n", "7\n"), "expected 'line 7' at line 16, found '7'"),
        (TEXT.replace("line 7\n", ""), "expected 'line 7' at line 7, found 'line 8'"),
    ],
)
def test_a_difference_is_told_where_most_of_the_hunk_stands(found: str, told: str) -> None:
    with pytest.raises(PatchError, match=told):
        result(found, diff(TEXT, TEXT.replace("line 7\n", "seven\n")))


def test_a_single_line_is_told_beside_the_one_that_is_most_like_it() -> None:
    old = "set(ARCHS 8.0 9.0 12.0)\n"
    with pytest.raises(PatchError, match=r"hunk 1: expected 'set.* at line 41, found 'set\(ARCHS 8.0 10.0"):
        result(TEXT + "set(ARCHS 8.0 10.0 12.0)\n", diff(old, "set(ARCHS)\n"))


def test_a_created_file_can_be_changed_and_removed_by_the_next(tmp_path: Path) -> None:
    make = patch("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+one\n", "1")
    change = patch("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n", "2")
    remove = patch("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n", "3")
    apply(tmp_path, [make, change])
    assert tree_of(tmp_path) == {"x": "two\n"}
    (tmp_path / "x").unlink()
    apply(tmp_path, [make, change, remove])
    assert tree_of(tmp_path) == {}


@pytest.mark.parametrize(
    "text",
    [
        diff(TEXT, TEXT.replace("line 9\n", "nine\n")),
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n",
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n",
        "diff --git a/gone b/gone\nold mode 100644\nnew mode 100755\n",
    ],
)
def test_a_patch_that_is_in_already_can_go(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(TEXT)
    (tmp_path / "gone").write_text("g\n")
    one = patch(text, "0001-one")
    apply(tmp_path, [one])
    before = tree_of(tmp_path)
    if "mode" not in text:
        with pytest.raises(PatchError, match="0001-one is already in this version: the patch can go"):
            apply(tmp_path, [one])
    assert tree_of(tmp_path) == before


def test_all_failures_are_named_the_first_in_full(tmp_path: Path) -> None:
    bad = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+b\n"
    with pytest.raises(PatchError, match=r"patch 1 does not apply: there is no file x \(and 1 more: 2\)"):
        apply(tmp_path, [patch(bad.format("x"), "1"), patch(bad.format("y"), "2")])


def test_a_file_that_would_lie_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\n")
    (tmp_path / "f").write_text("file\n")
    text = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/f/below\n@@ -0,0 +1 @@\n+c\n"
    with pytest.raises(PatchError, match="f/below would lie below a file"):
        apply(tmp_path, [patch(text)])
    assert tree_of(tmp_path) == {"x": "a\n", "f": "file\n"}


def new_file(name: str, text: str = "c") -> str:
    return f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{text}\n"


@pytest.mark.parametrize("names", [["q", "q/r"], ["q/r", "q"], ["q/r/s", "a", "q"]])
@pytest.mark.parametrize("together", [True, False])
def test_a_file_and_a_folder_of_one_name(tmp_path: Path, names: list[str], *, together: bool) -> None:
    (tmp_path / "x").write_text("a\n")
    texts = ["--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", *map(new_file, names)]
    patches = [patch("".join(texts))] if together else [patch(text, text[12:16]) for text in texts]
    assert [one.state for one in judge(tmp_path, patches)][-1] == "conflict"
    with pytest.raises(PatchError, match=r"q/r\S* would lie below the file q"):
        apply(tmp_path, patches)
    assert tree_of(tmp_path) == {"x": "a\n"}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_file_that_goes_before_its_name_becomes_a_folder_of_another_patch(tmp_path: Path) -> None:
    """One after the other is no clash: what was deleted is in nobody's way."""
    gone = "--- a/q2\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n"
    apply(tmp_path, [patch(new_file("q2"), "1"), patch(gone, "2"), patch(new_file("q2/r"), "3")])
    assert tree_of(tmp_path) == {"q2/r": "c\n"}


@pytest.mark.parametrize("size", [245, 250, 255])
def test_a_name_as_long_as_names_can_be(tmp_path: Path, size: int) -> None:
    name = "n" * size
    apply(tmp_path, [patch(new_file(name))])
    change = f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-c\n+d\n"
    apply(tmp_path, [patch(change)])
    assert tree_of(tmp_path) == {name: "d\n"}


@pytest.mark.parametrize("name", ["n" * 256, "/".join(["d" * 200] * 30)])
def test_a_name_that_is_too_long(tmp_path: Path, name: str) -> None:
    with pytest.raises(PatchError, match="too long") as caught:
        apply(tmp_path, [patch(new_file("first") + new_file(name))])
    assert caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    """The first file is written to a temporary one only, until all are."""
    (tmp_path / "x").write_text("a\n")
    large = "c" * 5000
    text = f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+{large}\n"
    with no_file_larger_than(1000), pytest.raises(OSError, match="too large"):
        apply(tmp_path, [patch(text)])
    assert tree_of(tmp_path) == {"x": "a\n"}


LINES = st.lists(
    st.sampled_from(["a", "b", "c", "", " d", "-e", "+f", "\\ g", "@@ -1 +1 @@", "-- h"]), max_size=25
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@given(TEXTS, TEXTS, st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_any_diff_gives_the_new_text(old: str, new: str, context: int) -> None:
    assume(old != new)
    text = diff(old, new, context=context)
    assert result(old, text) == new


UNIQUE = st.lists(st.text("xyz", min_size=1, max_size=5), min_size=4, max_size=30, unique=True)


@given(UNIQUE, st.data())
@settings(max_examples=200, deadline=None)
def test_a_changed_context_line_is_always_a_conflict(lines: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    near = data.draw(st.integers(max(0, at - 3), min(len(lines) - 1, at + 3)))
    old = "".join(f"{line}\n" for line in lines)
    new = "".join(f"{'changed' if index == at else line}\n" for index, line in enumerate(lines))
    here = "".join(f"{'other' if index == near else line}\n" for index, line in enumerate(lines))
    with pytest.raises(PatchError, match=f"expected '{lines[near]}' at line {near + 1}, found 'other'"):
        result(here, diff(old, new))


@given(UNIQUE, st.lists(st.sampled_from(["p", "q", "r"]), max_size=6), st.data())
@settings(max_examples=25, deadline=None)
def test_as_git_apply_has_it(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], before: list[str], data: st.DataObject
) -> None:
    """On a moved text, in which every line is unique, git and this agree on the outcome."""
    at = data.draw(st.integers(0, len(lines) - 1))
    old = "".join(f"{line}\n" for line in lines)
    new = "".join(f"{'changed' if index == at else line}\n" for index, line in enumerate(lines))
    here = "".join(f"{line}\n" for line in before) + old
    text = diff(old, new)
    folder = tmp_path_factory.mktemp("git")
    (folder / "x").write_bytes(here.encode())
    done = subprocess.run(
        ["/usr/bin/env", "git", "apply", "-"],
        cwd=folder,
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    ours = result(here, text)
    # git anchors hunks that touch an end of the file, and refuses to move those.
    if done.returncode == 0:
        assert (folder / "x").read_text() == ours
    else:
        assert here != old


def test_what_git_makes_is_understood(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    make_repository(
        repository, {"keep.py": TEXT, "gone.py": "bye\n", "run.sh": "#!\n", "dir/with space.txt": "a\nb"}
    )
    (repository / "keep.py").write_text(TEXT.replace("line 3\n", "3\n").replace("line 33\n", "33\n33\n"))
    (repository / "gone.py").unlink()
    (repository / "run.sh").chmod(0o755)
    (repository / "dir/with space.txt").write_text("a\nc\n")
    (repository / "new.txt").write_text("new")
    run_git(repository, "add", "-A")
    text = run_git(repository, "diff", "--cached", "--no-renames") + "\n"
    wanted = {name: content for name, content in tree_of(repository).items() if not name.startswith(".git/")}
    run_git(repository, "reset", "-q", "--hard")
    apply(repository, [patch(text)])
    assert {n: c for n, c in tree_of(repository).items() if not n.startswith(".git/")} == wanted
    assert stat.S_IMODE((repository / "run.sh").stat().st_mode) == 0o755
