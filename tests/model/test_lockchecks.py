"""Locks that are JSON of the right types, and yet hold words that must never become paths or arguments."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from orchestrator.errors import LockError
from orchestrator.model.catalog import Catalog, find_places
from orchestrator.model.lock import (
    Lock,
    LockedComponent,
    LockedFile,
    LockedSource,
    lock_bytes,
    unresolved_sources,
    with_commits,
)
from orchestrator.model.lockchecks import is_sha256, lock_problems
from orchestrator.model.reader import load_lock

if TYPE_CHECKING:
    from pathlib import Path

LONG = "9" * 5000


def wheel(
    name: str = "nvidia-cuda-nvcc", version: str = "13.0.88", file: str = "", **changes: Any
) -> LockedFile:
    stem = name.replace("-", "_")
    fields: dict[str, Any] = {"sha256": "a" * 64, "size": 5} | changes
    return LockedFile(name=name, version=version, file=file or f"{stem}-{version}-py3-none-any.whl", **fields)


def good() -> Lock:
    archive = LockedFile(name="vec", version="1.0", file="v1.0.tar.gz", sha256="b" * 64, size=7)
    return Lock(
        schema="sparkbuild.lock/1",
        stack="small",
        platform="linux-x86_64",
        python="3.12",
        inputs="0" * 64,
        toolkit=(wheel(),),
        components={
            "torch": LockedComponent(version="2.14.1", prebuilt=wheel("torch", "2.14.1"), run=(wheel(),)),
            "vec": LockedComponent(
                version="1.0",
                requires=(
                    wheel("ninja", "1.13"),
                    wheel("ruamel-yaml", "1", "ruamel.yaml-1-py3-none-any.whl"),
                ),
                sources={
                    "main": LockedSource(file=archive),
                    "other": LockedSource(commit="2" * 40, submodules={"third_party/x": "3" * 40}),
                },
            ),
        },
    )


def plain() -> Any:
    return json.loads(lock_bytes(good()))


def refusal(tmp_path: Path, tree: Any) -> LockError:
    path = tmp_path / "small.lock"
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(LockError, match="not a lock") as caught:
        load_lock(path)
    assert caught.value.where == str(path)
    assert "sparkbuild lock" in (caught.value.hint or "")
    assert caught.value.exit_code == 2
    assert len(caught.value.message) < 3000
    assert caught.value.message.isprintable() or "\n" in caught.value.message
    return caught.value


def test_a_good_lock_has_no_problems(tmp_path: Path) -> None:
    path = tmp_path / "small.lock"
    path.write_bytes(lock_bytes(good()))
    assert load_lock(path) == good()


def test_shipped_locks_pass() -> None:
    stacks = find_places()[-1].stacks
    locks = sorted(stacks.glob("*.lock"))
    assert locks
    for path in locks:
        assert load_lock(path).stack in Catalog(find_places()).stacks()


FILE_FAULTS: dict[str, list[Any]] = {
    "sha256": [
        *(
            "",
            "/home/x/decoy",
            "../decoy",
            "A" * 64,
            "a" * 63,
            "a" * 65,
            "a" * 64 + "\n",
            "\0" * 64,
            "a" * 32,
        ),
        "٣" * 64,  # digits, but not ASCII ones
    ],
    "file": [
        *("", ".", "..", "a/b.whl", "/etc-1.whl", "../nvidia_cuda_nvcc-1.whl", "nvidia_cuda_nvcc-1\0.whl"),
        *("nvidia_cuda_nvcc-1\n.whl", "nvidia_cuda_nvcc-" + "1" * 240, "nvidia_cuda_nvcc-" + "é" * 120),
    ],
    "name": ["", "Nvidia", "nvidia_cuda", "-a", "../a", "a\n", "a" * 101, "é"],
    "version": [
        *(
            "",
            "one",
            "1.0\n",
            "../1",
            "1 0",
            "1.0+",
            "1..0",
            "-1",
            "--pre",
            "1\0",
            LONG,
            "1.0rc" + LONG,
            "1/0",
        ),
        "1.٣",
    ],
    "size": [-1, 2**50, 2**62],
}


@pytest.mark.parametrize(
    ("field", "word"), [(field, word) for field, words in FILE_FAULTS.items() for word in words]
)
@pytest.mark.parametrize("place", ["toolkit", "prebuilt", "run", "requires", "source"])
def test_words_of_a_file(tmp_path: Path, place: str, field: str, word: Any) -> None:
    tree = plain()
    torch, vec = tree["components"]["torch"], tree["components"]["vec"]
    file, steps = {
        "toolkit": (tree["toolkit"][0], "toolkit[0]"),
        "prebuilt": (torch["prebuilt"], "components.torch.prebuilt"),
        "run": (torch["run"][0], "components.torch.run[0]"),
        "requires": (vec["requires"][1], "components.vec.requires[1]"),
        "source": (vec["sources"]["main"]["file"], "components.vec.sources.main.file"),
    }[place]
    file[field] = word
    message = refusal(tmp_path, tree).message
    assert f"{steps}.{field}: found " in message
    if field != "file":
        assert file["file"] in message


@pytest.mark.parametrize("name", ["a--b", "a-"])
def test_an_archive_has_its_recipes_name_and_a_wheel_a_normalized_one(tmp_path: Path, name: str) -> None:
    tree = plain()
    tree["components"]["vec"]["sources"]["main"]["file"]["name"] = name
    path = tmp_path / "small.lock"
    path.write_text(json.dumps(tree), encoding="utf-8")
    assert load_lock(path).components["vec"].sources["main"].file is not None
    tree["toolkit"][0]["name"] = name
    assert "toolkit[0].name: found " in refusal(tmp_path, tree).message


def test_a_wheel_is_called_as_its_distribution(tmp_path: Path) -> None:
    tree = plain()
    tree["toolkit"][0]["file"] = "torch-2.14.1-py3-none-any.whl"
    message = refusal(tmp_path, tree).message
    assert "toolkit[0].file: found 'torch-2.14.1-py3-none-any.whl'" in message
    assert "a file of 'nvidia-cuda-nvcc'" in message


@pytest.mark.parametrize(
    "version", ["1", "1!2.0", "2.14.1+cu130", "1.0a1", "1.0.post1", "1.0.dev3", "v1.0-1"]
)
def test_versions_of_pep_440(version: str) -> None:
    from packaging.version import Version

    Version(version)
    assert not list(lock_problems(Lock(**{**_fields(), "toolkit": (wheel(version=version, file=FILE),)})))


FILE = "nvidia_cuda_nvcc-1-py3-none-any.whl"


def _fields() -> dict[str, Any]:
    lock = good()
    return {name: getattr(lock, name) for name in lock.__struct_fields__}


@pytest.mark.parametrize(
    ("field", "word"),
    [
        *(("stack", word) for word in ("", "../x", "Small", "a\n", "a" * 101)),
        *(("platform", word) for word in ("", "linux", "linux-x/..", "linux-x86_64\n")),
        *(("python", word) for word in ("", "3", "3.x", "3.12\n", "3." + LONG, "/3.12")),
        *(("inputs", word) for word in ("", "0" * 63, "G" * 64)),
    ],
)
def test_words_of_the_lock(tmp_path: Path, field: str, word: str) -> None:
    assert f"not a lock: {field}: found " in refusal(tmp_path, plain() | {field: word}).message


@pytest.mark.parametrize(
    "commit", ["", "2" * 39, "2" * 64, "A" * 40, "HEAD", "--upload-pack=x", "2" * 40 + "\n"]
)
def test_commits(tmp_path: Path, commit: str) -> None:
    tree = plain()
    other = tree["components"]["vec"]["sources"]["other"]
    other["commit"] = commit
    other["submodules"]["third_party/x"] = commit
    message = refusal(tmp_path, tree).message
    assert "components.vec.sources.other.commit: found " in message
    assert "components.vec.sources.other.submodules.third_party/x: found " in message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"commit": "unresolved"}, "commit: found 'unresolved', expected a commit id, or a `tag` beside it"),
        ({"commit": "unresolved", "tag": "-x"}, "tag: found '-x', expected the name of a tag"),
        ({"commit": "unresolved", "tag": "a b"}, "tag: found 'a b'"),
        ({"commit": "2" * 40, "tag": "v1\n"}, "tag: found "),
        ({"commit": "unresolved v1", "tag": "v1"}, "commit: found 'unresolved v1'"),
    ],
)
def test_open_commits(tmp_path: Path, source: dict[str, str], words: str) -> None:
    tree = plain()
    tree["components"]["vec"]["sources"]["other"] = source
    assert f"components.vec.sources.other.{words}" in refusal(tmp_path, tree).message


def test_an_open_commit_is_read_from_a_lock_that_has_seen_its_tag(tmp_path: Path) -> None:
    def lock(**sources: LockedSource) -> Lock:
        vec = msgspec.structs.replace(good().components["vec"], sources=sources)
        return msgspec.structs.replace(good(), components={**good().components, "vec": vec})

    open_ = LockedSource(commit="unresolved", tag="v1")
    read = LockedSource(commit="2" * 40, tag="v1", submodules={})
    path = tmp_path / "small.lock"
    path.write_bytes(lock_bytes(lock(main=open_, other=read)))
    shipped = load_lock(path)
    assert unresolved_sources(shipped) == (("vec", "main", "v1"),)
    assert with_commits(shipped, lock(main=read)) == lock(main=read, other=read)
    for other in (open_, LockedSource(commit="2" * 40, tag="v2"), LockedSource(commit="2" * 40)):
        assert with_commits(shipped, lock(main=other)) == shipped
    assert with_commits(shipped, lock()) == shipped
    assert with_commits(shipped, msgspec.structs.replace(good(), components={})) == shipped


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc",
        "..",
        "a/../b",
        "a//b",
        "./a",
        "a/",
        ".git/hooks",
        "a/.GIT",
        "a\0b",
        "a\nb",
        "x" * 256,
        "x/" * 600 + "x",
    ],
)
def test_paths_of_submodules(tmp_path: Path, path: str) -> None:
    tree = plain()
    tree["components"]["vec"]["sources"]["other"]["submodules"][path] = "3" * 40
    assert "expected a relative path that stays inside the tree" in refusal(tmp_path, tree).message


def test_names_of_components_and_sources(tmp_path: Path) -> None:
    tree = plain()
    tree["components"]["../vec"] = tree["components"]["vec"]
    assert (
        "components.../vec: found '../vec', expected the name of a recipe" in refusal(tmp_path, tree).message
    )
    tree = plain()
    tree["components"]["vec"]["sources"]["../x"] = {}
    assert "expected the name of a source" in refusal(tmp_path, tree).message


@pytest.mark.parametrize("number", [LONG, "1e400", "5.5", "true"])
def test_numbers_that_python_cannot_hold(tmp_path: Path, number: str) -> None:
    path = tmp_path / "small.lock"
    path.write_text(json.dumps(plain()).replace('"size": 5', f'"size": {number}'), encoding="utf-8")
    with pytest.raises(LockError, match="not a lock"):
        load_lock(path)


def test_many_mistakes_are_counted(tmp_path: Path) -> None:
    tree = plain()
    tree["toolkit"] = [tree["toolkit"][0] | {"sha256": "x"}] * 50
    message = refusal(tmp_path, tree).message
    assert message.count("\n") == 20
    assert message.endswith("and 30 more")


@pytest.mark.parametrize(
    ("text", "fits"), [("0a" * 32, True), ("0A" * 32, False), ("0a" * 31, False), ("a" * 64 + "\n", False)]
)
def test_is_sha256(text: str, *, fits: bool) -> None:
    assert is_sha256(text) is fits


def test_a_lock_of_3000_files_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "large.lock"
    files = tuple(
        wheel(f"package-{number}", file=f"Package_{number}-13.0.88-py3-none-any.whl")
        for number in range(3000)
    )
    path.write_bytes(lock_bytes(Lock(**{**_fields(), "toolkit": files})))
    spent = []
    for _ in range(3):
        start = time.process_time()
        load_lock(path)
        spent.append(time.process_time() - start)
    # It takes 6 ms; the limit only tells a pattern that has become slow by an order.
    assert min(spent) < 0.1
