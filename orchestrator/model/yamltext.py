"""YAML as text with places: every scalar stays the string that was written.

`yaml.compose` (libyaml where there is one) gives nodes with marks; nothing is resolved to numbers,
booleans or dates, so `2.10` stays `2.10` and `no` stays `no`. What makes a file mean something other
than it seems (duplicate keys, anchors, tags, several documents, tabs) is an error with its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from orchestrator.errors import RecipeError

if TYPE_CHECKING:
    from pathlib import Path

    import yaml

Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"
Steps: TypeAlias = tuple[str | int, ...]
"""The way to a value: field names and list positions from the top of the file."""

MAX_BYTES = 1 << 20
"""A recipe is a page of text; anything larger is some other file."""
MAX_DEPTH = 32
"""Levels of lists and mappings; a recipe needs seven."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML file: its data, and the place of everything in it."""

    file: str
    data: Tree
    root: yaml.Node

    def place(self, steps: Steps, *, key: bool = False) -> str:
        """Return `file:line:column` (from 1) of the value at `steps`, or of its key.

        For steps that lead nowhere (a field that is missing) it is the place of the innermost
        mapping or list on the way.
        """
        line, column = self.mark(steps, key=key)
        return f"{self.file}:{line}:{column}"

    def mark(self, steps: Steps, *, key: bool = False) -> tuple[int, int]:
        """Return line and column, both from 1, as `place` describes."""
        node, found = self.root, self.root
        for step in steps:
            children = node.value
            if isinstance(step, int):
                if not isinstance(children, list) or step >= len(children):
                    break
                node = found = children[step]
                continue
            pair = next((pair for pair in children if _is_pair(pair) and pair[0].value == step), None)
            if pair is None:
                break
            node = pair[1]
            found = pair[0] if key else node
        return found.start_mark.line + 1, found.start_mark.column + 1


def read_document(path: Path) -> Document:
    """Read one YAML file.

    Raises:
        RecipeError: the file cannot be read or is not the plain kind of YAML that recipes use.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise RecipeError(f"cannot be read: {reason}", where=str(path)) from error
    return parse_document(raw, str(path))


def parse_document(raw: bytes, file: str) -> Document:
    """Parse the bytes of one YAML file; `file` is its name in messages.

    Raises:
        RecipeError: as `read_document`.
    """
    text = _decoded(raw, file)
    root = _composed(text, file)
    return Document(file, _tree(root, file), root)


def _decoded(raw: bytes, file: str) -> str:
    if len(raw) > MAX_BYTES:
        raise RecipeError(f"{len(raw)} bytes are too many for a recipe or stack", where=file)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2]) + 1
        raise RecipeError(
            f"byte 0x{raw[error.start]:02x} is not UTF-8",
            where=f"{file}:{line}:{column}",
            hint="save the file as UTF-8",
        ) from error
    tab = text.find("\t")
    if tab >= 0:
        line = text.count("\n", 0, tab) + 1
        column = tab - text.rfind("\n", 0, tab)
        raise RecipeError("a tab", where=f"{file}:{line}:{column}", hint="indent with spaces")
    return text


def _composed(text: str, file: str) -> yaml.Node:
    """Return the root node; the letters `&` and `!` alone cost the second, slower look."""
    import yaml

    try:
        if "&" in text or "!" in text or _deep(text):
            _judge_events(text, file)
        loader = _loader()(text)
        try:
            root: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        if "expected a single document" in str(error):
            raise RecipeError("a second document", where=where, hint="one file, one document") from error
        raise RecipeError(f"not YAML: {problem}", where=where) from error
    if root is None:
        raise RecipeError("the file is empty", where=f"{file}:1:1", hint="start with `schema: ...`")
    return root


def _deep(text: str) -> bool:
    """Say whether nesting could be deep enough to need the look at events before the (recursive) composer."""
    return (
        text.count("[") + text.count("{") > MAX_DEPTH
        or " " * MAX_DEPTH in text
        or text.count("- ") > MAX_DEPTH
    )


def _judge_events(text: str, file: str) -> None:
    """Refuse anchors, aliases, tags and deep nesting, none of which the composer's nodes would show."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_base()):
        mark = event.start_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise RecipeError(f"more than {MAX_DEPTH} levels", where=where)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            kind = "an alias" if isinstance(event, yaml.AliasEvent) else "an anchor"
            raise RecipeError(f"{kind} ({anchor})", where=where, hint="write the value out where it is used")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise RecipeError(f"a tag ({tag})", where=where, hint="quote the value if it starts with !")


def _base() -> type[Any]:
    """Return libyaml's loader, or PyYAML's own where it was built without."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@lru_cache(maxsize=1)
def _loader() -> type[Any]:
    """Return a loader that resolves no scalar: nodes carry the text alone, at half the cost."""

    class TextLoader(_base()):  # type: ignore[misc]  # the base is chosen at run time
        def resolve(self, kind: object, value: object, implicit: object) -> str:
            del kind, value, implicit
            return ""

        def descend_resolver(self, current_node: object, current_index: object) -> None:
            del current_node, current_index

        def ascend_resolver(self) -> None:
            pass

    return TextLoader


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple)


def _tree(node: Any, file: str) -> Tree:
    # `id` is PyYAML's own way to tell nodes apart; isinstance would import yaml in every call.
    kind = node.id
    if kind == "scalar":
        return str(node.value)
    if kind == "sequence":
        return [_tree(child, file) for child in node.value]
    found: dict[str, Tree] = {}
    for key, value in node.value:
        if key.id != "scalar":
            raise RecipeError("a key that is no plain word", where=_at(file, key), hint="quote it")
        name = str(key.value)
        if name in found:
            first = next(other for other, _ in node.value if other.value == name).start_mark
            raise RecipeError(
                f"the key {name!r} stands twice",
                where=_at(file, key),
                hint=f"the first is in line {first.line + 1}; keep one",
            )
        found[name] = _tree(value, file)
    return found


def _at(file: str, node: Any) -> str:
    mark = node.start_mark
    return f"{file}:{mark.line + 1}:{mark.column + 1}"
