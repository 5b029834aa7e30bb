"""YAML as text: what is kept, what is refused, and where it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import RecipeError
from orchestrator.model import yamltext
from orchestrator.model.yamltext import Tree, parse_document, read_document

if TYPE_CHECKING:
    from pathlib import Path


def refused(text: str | bytes) -> RecipeError:
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(RecipeError) as caught:
        parse_document(raw, "f.yaml")
    return caught.value


@pytest.mark.parametrize(
    "scalar",
    ["2.10", "no", "0012345", "12:30:00", "1e3", "2026-12-01", "null", "~", "0x1f", "=", "<<", "true"],
)
def test_every_scalar_stays_as_written(scalar: str) -> None:
    assert parse_document(f"value: {scalar}\n".encode(), "f").data == {"value": scalar}


def test_nested_values_and_empty_ones() -> None:
    text = "a: [x, {b: c}]\nd:\n- 'q'\n- \"r!\"\ne:\nf: ''\ng: >-\n  two\n  lines\n"
    expected = {"a": ["x", {"b": "c"}], "d": ["q", "r!"], "e": "", "f": "", "g": "two lines"}
    assert parse_document(text.encode(), "f").data == expected


def test_a_byte_order_mark_is_no_text() -> None:
    assert parse_document(b"\xef\xbb\xbfa: b\n", "f").data == {"a": "b"}


def test_places_of_values_keys_and_missing_fields() -> None:
    document = parse_document(b"a: 1\nlist:\n  - {b: c}\n  - d\n", "f.yaml")
    assert document.place(("list", 0, "b")) == "f.yaml:3:9"
    assert document.place(("list", 0, "b"), key=True) == "f.yaml:3:6"
    assert document.place(("list", 1)) == "f.yaml:4:5"
    assert document.place(("list", 7)) == "f.yaml:3:3"
    assert document.place(("absent", "field")) == "f.yaml:1:1"
    assert document.place(("a", 0)) == "f.yaml:1:4"


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "f.yaml:1:1", "empty"),
        ("# only a comment\n", "f.yaml:1:1", "empty"),
        ("a: 1\nb:\n  c: 2\n  c: 3\n", "f.yaml:4:3", "'c' stands twice"),
        ("a: &x 1\nb: *x\n", "f.yaml:1:4", "an anchor (x)"),
        ("a: *x\n", "f.yaml:1:4", "alias"),
        ("a: !!int 3\n", "f.yaml:1:4", "a tag"),
        ("a: ! 3\n", "f.yaml:1:4", "a tag"),
        ("a: !own {b: c}\n", "f.yaml:1:4", "a tag (!own)"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1", "a second document"),
        ("a:\n\tb: 1\n", "f.yaml:2:1", "a tab"),
        ("a: x\ty\n", "f.yaml:1:5", "a tab"),
        ("[a, b]: c\n", "f.yaml:1:1", "no plain word"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2", "not YAML"),
        ("a: b: c\n", "f.yaml:1:5", "not YAML"),
        ("a: \x01\n", "f.yaml", "control characters"),
        ("[" * 5000, None, "nesting"),
        ("{a: " * 300, None, "levels"),
        ("- " * 300 + "x", None, "levels"),
    ],
)
def test_what_would_surprise_is_refused(text: str, where: str | None, words: str) -> None:
    error = refused(text)
    assert words in error.message
    assert error.exit_code == 2
    if where is not None:
        assert error.where == where


def test_the_second_key_names_the_line_of_the_first() -> None:
    assert "line 1" in (refused("a: 1\nb: 2\na: 3\n").hint or "")


def test_bytes_that_are_not_utf8_are_placed() -> None:
    error = refused(b"a: b\nc: \xff\n")
    assert error.where == "f.yaml:2:4"
    assert "0xff" in error.message


def test_files_that_are_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read"):
        read_document(tmp_path / "absent.yaml")
    with pytest.raises(RecipeError, match="cannot be read"):
        read_document(tmp_path)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (yamltext.MAX_BYTES + 1))
    with pytest.raises(RecipeError, match="too many"):
        read_document(large)


def test_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML's wheels have libyaml; a distributor's may not."""
    monkeypatch.delattr(yaml, "CSafeLoader")
    yamltext._loader.cache_clear()
    try:
        document = parse_document(b"a: 2.10\nlist:\n  - {b: no}\n", "f.yaml")
        assert document.data == {"a": "2.10", "list": [{"b": "no"}]}
        assert document.place(("list", 0, "b")) == "f.yaml:3:9"
        assert refused("a: &x 1\n").where == "f.yaml:1:4"
        assert refused("a: 1\n---\nb: 2\n").message == "a second document"
        assert refused("a: b: c\n").where == "f.yaml:1:5"
        assert "control" in refused("a: \x01\n").message or "not allowed" in refused("a: \x01\n").message
    finally:
        yamltext._loader.cache_clear()


words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
trees: st.SearchStrategy[Tree] = st.recursive(
    words,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(words, inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)


@given(trees)
def test_quoted_data_comes_back_as_it_was(tree: Tree) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True, default_style='"', width=1000)
    assert parse_document(text.encode(), "f").data == tree


def place_of_refusal(raw: bytes) -> str | None:
    """Return where it is refused, or None when it is read; any other exception is a fault."""
    try:
        parse_document(raw, "f.yaml")
    except RecipeError as error:
        return error.where
    return None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    assert (place_of_refusal(raw) or "f.yaml").startswith("f.yaml")


@given(st.text(alphabet="ab:-[]{}&*!#|>'\" \n,?%@`\\", max_size=60))
def test_any_punctuation_is_read_or_refused(text: str) -> None:
    assert (place_of_refusal(text.encode()) or "f.yaml").startswith("f.yaml")
