"""Words of recipes and stacks that would become paths, globs, numbers or arguments that nothing can hold."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.audit.globs import matches
from orchestrator.errors import RecipeError
from orchestrator.model.convert import any_text, text
from orchestrator.model.reader import load_recipe, load_stack

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.model.convert import Convert, Problem
    from orchestrator.model.recipe import Build

DIGITS = "9" * 5000
WHEN = {"version": ">=1"}


def recipe(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "sparkbuild.recipe/1",
        "name": "vec",
        "summary": "s",
        "sources": {"main": {"sdist": "vec"}},
        "build": {},
    } | changes


def build(**fields: Any) -> dict[str, Any]:
    return recipe(build=fields)


def variant(**fields: Any) -> dict[str, Any]:
    return build(variants=[{"when": WHEN, **fields}])


def source(**fields: Any) -> dict[str, Any]:
    return recipe(sources={"main": {"sdist": "vec"}, "other": fields})


def modules(match: str) -> dict[str, Any]:
    return recipe(modules=[{"match": match, "expect": "native"}])


def excepting(kernels: str) -> dict[str, Any]:
    exempt = {"kernels": kernels, "reason": "r"}
    return recipe(modules=[{"match": "a.so", "expect": "native", "except": [exempt]}])


def write(tmp_path: Path, tree: dict[str, Any], name: str = "vec") -> Path:
    """Write a tree as JSON, all of whose escapes YAML knows too."""
    path = tmp_path / f"{name}.yaml"
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


def built(tmp_path: Path, tree: dict[str, Any]) -> Build:
    found = load_recipe(write(tmp_path, tree)).build
    assert found is not None
    return found


PATHS = [
    *("..", "../x", "a/../b", "/a", "/", "~/a", "a\\b", "a\0b", "a\nb", "a\x1b[2Jb", "", "x" * 256),
    *("é" * 128, "x" * 6000, "x/" * 600 + "x"),
]
OUTPUTS = [
    *PATHS,
    "a**",
    "**",
    "**a",
    "***",
    "a/**",
    "a/**b/c",
    ".",
    "./",
    "./.",
    "a/",
    "[",
    "a[b",
    "[z-a]",
    "[]",
]
SETS = [
    "[",
    "a[b",
    "[z-a]",
    "[!z-a]",
    "[]",
    "[!]",
    "[^]",
    "[[a]",
    "[a--]",
    "[a&&b]",
    "[a||b]",
    "[]a]",
    "[a\\]",
]
ONE_LINE = ["a\0b", "a\nb"]

WRONG: list[tuple[str, dict[str, Any]]] = [
    *(("build.outputs[0]", build(outputs=[word])) for word in OUTPUTS),
    *(("build.directory", build(directory=word)) for word in PATHS),
    *(("sources.other.into", source(sdist="x", into=word)) for word in [*PATHS, ".", "./", "./."]),
    *(("sources.other.local", source(local=word)) for word in [*ONE_LINE, "", "x" * 256, "x/" * 2500]),
    *(
        ("sources.other.git", source(git=word))
        for word in [*ONE_LINE, "", "--upload-pack=x", "https://x/a b"]
    ),
    *(
        ("sources.other.archive", source(archive=word))
        for word in [
            *(
                "https://x/a\0b",
                "https://x/a\nb",
                "https://x/",
                "https://x/..",
                "https://x/.?y",
                "--x=https://x/a",
            ),
            "https://x/" + "a" * 200,
        ]
    ),
    *(("modules[0].match", modules(word)) for word in [*PATHS, *SETS, ".", "./"]),
    *(("modules[0].except[0].kernels", excepting(word)) for word in [*SETS, "", "*", "a\0b"]),
    *(
        ("build.memory_per_unit", build(memory_per_unit=word))
        for word in [
            *(f"{DIGITS} GiB", DIGITS, f"{DIGITS}.{DIGITS} TiB", f"0.{'0' * 5000}1", "1025 TiB"),
            *("1048577 GiB", str(2**50 + 1), "-1", "1e3", "inf", "nan", "0"),
        ]
    ),
    *(("patches[0]", recipe(patches=[word])) for word in [*ONE_LINE, "../a", "a/b", "..", "x" * 101]),
    *(("patches[0].source", recipe(patches=[{"name": "a", "source": word}])) for word in [*ONE_LINE, DIGITS]),
    *(
        ("sources", recipe(sources={"main": {"sdist": "v"}, word: {"sdist": "x"}}))
        for word in ["a\0", "a\n", "../a"]
    ),
    ("sources", recipe(sources={"main": {"sdist": "v"}, "x" * 101: {"sdist": "x"}})),
    *(("distribution", recipe(distribution=word)) for word in [*ONE_LINE, "../a", "x" * 101]),
    *(("sources.main.sdist", recipe(sources={"main": {"sdist": word}})) for word in [*ONE_LINE, "x" * 101]),
    *(("sources.other.env", source(sdist="x", env=word)) for word in [*ONE_LINE, "A=B"]),
    *(("sources.other.cmake", source(sdist="x", cmake=word)) for word in [*ONE_LINE, "A=B"]),
    *(("arch.env", recipe(arch={"env": {word: "nvcc"}})) for word in [*ONE_LINE, "A=B", ""]),
    *(
        (f"{place}.{field}", make(**{field: {word: "x"}}))
        for make, place in ((build, "build"), (variant, "build.variants[0]"))
        for field in ("env", "config_settings")
        for word in [*ONE_LINE, ""]
    ),
    *(
        (f"{place}.{field}.A", make(**{field: {"A": word}}))
        for make, place in ((build, "build"), (variant, "build.variants[0]"))
        for field in ("env", "config_settings")
        for word in ["a\0b", "\0", "x" * 100_001]
    ),
    *(
        (f"{place}.commands[0][1]", make(commands=[["a", word]]))
        for make, place in ((build, "build"), (variant, "build.variants[0]"))
        for word in ["a\0b", "x" * 100_001, ""]
    ),
    *(
        ("build.requires[0]", build(requires=[word]))
        for word in [
            "a\0",
            "a\n--index-url x",
            f"a>={DIGITS}",
            f"a>={DIGITS}rc1",
            f"a; python_version<'{DIGITS}'",
        ]
    ),
    *(
        ("sources.other.when.version", source(sdist="x", when={"version": word}))
        for word in [f">={DIGITS}", f">={DIGITS}.dev1", "===a\0b", f"~={DIGITS}.1"]
    ),
    *(
        ("applies[0]", recipe(applies=[word]))
        for word in [DIGITS, f"{DIGITS}.0a", f"12.{DIGITS}", f"sm_{DIGITS}"]
    ),
    *(("summary", recipe(summary=word)) for word in ["\0", ""]),
]


@pytest.mark.parametrize(("field", "tree"), WRONG)
def test_what_nothing_can_hold(tmp_path: Path, field: str, tree: dict[str, Any]) -> None:
    path = write(tmp_path, tree)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    error = caught.value
    assert re.fullmatch(rf"{re.escape(str(path))}:1:[0-9]+", error.where or "")
    assert error.message.startswith(field), error.message
    assert error.exit_code == 2
    assert error.hint
    # Short, and nothing in it that a terminal obeys.
    assert len(error.message) < 600
    assert all(line.isprintable() for line in error.message.split("\n"))


@pytest.mark.parametrize(
    "pattern", ["*.whl", "**/*.whl", "a/**/b.whl", "./*.whl", "x[0-9a]?.whl", "[!.]*", "a-[*].x"]
)
def test_outputs_that_every_python_reads_alike(tmp_path: Path, pattern: str) -> None:
    assert built(tmp_path, build(outputs=[pattern])).outputs == (pattern,)
    assert list(tmp_path.glob(pattern)) in ([], [tmp_path / "vec.yaml"])


@pytest.mark.parametrize(
    "pattern", ["**", "a**", "vllm/**", "**/*.so", "a[0-9]*.so", "[!a-z]", "[a-]x", "[*].so"]
)
def test_globs_of_modules_that_the_audit_reads(tmp_path: Path, pattern: str) -> None:
    assert load_recipe(write(tmp_path, modules(pattern))).modules[0].match == pattern
    matches(pattern, "a/b.so")


@pytest.mark.parametrize("directory", [".", "./", "a", "a/", "./a/b", "a b", "ä"])
def test_directories(tmp_path: Path, directory: str) -> None:
    assert built(tmp_path, build(directory=directory)).directory == directory


def test_scripts_and_long_values_stay_as_they_are(tmp_path: Path) -> None:
    script, long = "import x\nx.y()\n", "x" * 100_000
    found = built(
        tmp_path,
        build(
            commands=[["{python}", "-c", script]],
            env={"A": script, "B": long, "C": ""},
            config_settings={"--x": ""},
        ),
    )
    assert found.commands[0][2] == script
    assert found.env == {"A": script, "B": long, "C": ""}
    assert found.config_settings == {"--x": ""}


@pytest.mark.parametrize("word", ["\ud800", "a\udfffb", "\0"])
@pytest.mark.parametrize("read", [text, any_text])
def test_letters_that_no_file_holds(read: Convert, word: str) -> None:
    problems: list[Problem] = []
    assert read(word, ("summary",), problems) == ""
    assert str(problems[0]).encode().startswith(b"summary: found '")


def test_the_largest_size(tmp_path: Path) -> None:
    assert built(tmp_path, build(memory_per_unit="1024 TiB")).memory_per_unit == 2**50


def test_a_name_of_a_field_is_told_short_and_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(tmp_path, recipe(**{"x\n\x1b[2J" + "y" * 5000: "1"})))
    assert len(caught.value.message) < 400
    assert caught.value.message.isprintable()


def stack(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "sparkbuild.stack/1",
        "name": "small",
        "summary": "s",
        "platforms": ["linux-x86_64"],
        "pythons": ["3.12"],
        "components": {"vec": {"version": "1"}},
    } | changes


def toolkit(**fields: Any) -> dict[str, Any]:
    return stack(toolkit={"version": "==13.0.*", "packages": ["a"]} | fields)


@pytest.mark.parametrize(
    ("field", "tree"),
    [
        *(
            ("components.vec.version", stack(components={"vec": {"version": word}}))
            for word in [DIGITS, f"1.{DIGITS}", f"{DIGITS}rc1", "1\0", "1\n", f"1+{DIGITS}"]
        ),
        *(("components", stack(components={word: {"version": "1"}})) for word in ["a\0b", "a\nb", ""]),
        *(("pythons[0]", stack(pythons=[word])) for word in [f"3.{DIGITS}", "3.1\n", DIGITS]),
        *(("toolkit.version", toolkit(version=word)) for word in [f">={DIGITS}", "==1\0"]),
        *(("toolkit.packages[0]", toolkit(packages=[word])) for word in [f"a=={DIGITS}", "a\0"]),
        *(("toolkit.headers[0]", toolkit(headers=[word])) for word in [*PATHS, "."]),
        *(
            ("toolkit.libraries[0]", toolkit(libraries=[word]))
            for word in ["libx\0.so", "lib" + "x" * 300 + ".so"]
        ),
    ],
)
def test_words_of_stacks(tmp_path: Path, field: str, tree: dict[str, Any]) -> None:
    with pytest.raises(RecipeError) as caught:
        load_stack(write(tmp_path, tree, "small"))
    assert caught.value.message.startswith(field), caught.value.message
    assert len(caught.value.message) < 600


@pytest.mark.parametrize("load", [load_recipe, load_stack])
def test_a_name_that_fits_no_file(tmp_path: Path, load: Any) -> None:
    name = "x" * 101
    tree = recipe(name=name) if load is load_recipe else stack(name=name)
    with pytest.raises(RecipeError, match="at most 100 letters"):
        load(write(tmp_path, tree, name))
