"""Locks from a real resolver, a package index on disk, real git and real archives."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import msgspec
import pytest
from lock_help import Shelf
from source_help import commit_files, make_repository, run_git

from orchestrator.errors import LockError, RecipeError, SourceError
from orchestrator.model.catalog import Catalog, find_places
from orchestrator.model.lock import Lock, lock_bytes
from orchestrator.model.lockinputs import lock_inputs
from orchestrator.model.platform import Target
from orchestrator.model.recipe import Build, Needs, Recipe, Source, Variant, When
from orchestrator.model.stack import Component, Stack, Toolkit
from orchestrator.source.pipconfig import IndexConfig
from orchestrator.source.resolve import make_lock

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.report.events import Event
    from orchestrator.store.home import Home

X86 = Target("linux-x86_64", "3.12")
ARM = Target("linux-aarch64", "3.13")
TORCH = Recipe(schema="sparkbuild.recipe/1", name="pytorch", summary="s", distribution="Torch")
VEC = Recipe(
    schema="sparkbuild.recipe/1",
    name="vec",
    summary="s",
    sources={"main": Source(sdist="Vec_Kernels")},
    build=Build(
        requires=("ninja",),
        variants=(
            Variant(when=When(arch=("9.0a",)), requires=("hopper-tools",)),
            Variant(when=When(platform="linux-aarch64"), requires=("nvpl",)),
        ),
    ),
)
RECIPES = {"pytorch": TORCH, "vec": VEC}
STACK = Stack(
    schema="sparkbuild.stack/1",
    name="small",
    summary="s",
    toolkit=Toolkit(version="==13.0.*", packages=("cuda-toolkit[nvcc]==13.0.3",)),
    platforms=("linux-x86_64", "linux-aarch64"),
    pythons=("3.12",),
    components={"vec": Component(version="1.2"), "pytorch": Component(version="2.14.1", prebuilt=True)},
)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """An index in whose newest versions toolkit and torch disagree, as the real one's do."""
    shelf = Shelf(tmp_path / "shelf")
    for machine in ("x86_64", "aarch64"):
        for python in ("cp312-cp312", "cp313-cp313"):
            shelf.wheel(
                "torch",
                "2.14.1",
                requires=[
                    "nvidia-link<13.5",
                    "typing-extensions",
                    "setuptools>=77; python_version >= '3.12'",
                ],
                tags=f"{python}-manylinux_2_28_{machine}",
            )
    shelf.wheel("torch", "2.15.0")
    shelf.wheel("cuda-toolkit", "13.0.3.0", requires=["nvidia-nvcc==13.0.*; extra == 'nvcc'", "nvidia-link"])
    for version in ("13.0.88", "13.5.37"):
        shelf.wheel("nvidia-nvcc", version, requires=[f"nvidia-crt=={version}"])
        shelf.wheel("nvidia-crt", version)
        shelf.wheel("nvidia-link", version)
    for name, version in (
        ("typing-extensions", "4.16"),
        ("setuptools", "78"),
        ("setuptools", "84"),
        ("nvpl", "1"),
    ):
        shelf.wheel(name, version)
    shelf.wheel("hopper-tools", "3", requires=["setuptools<80"])
    shelf.wheel("ninja", "1.13", tags="py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64")
    shelf.wheel("ninja", "1.13", tags="py3-none-manylinux2014_aarch64")
    shelf.sdist("vec-kernels", "1.2")
    shelf.sdist("vec-kernels", "1.3")
    return shelf


def locked(
    shelf: Shelf,
    home: Home,
    *,
    stack: Stack = STACK,
    recipes: dict[str, Recipe] = RECIPES,
    target: Target = X86,
) -> Lock:
    return make_lock(stack, recipes, target, home=home, config=shelf.config)


def without_arch_variant() -> dict[str, Recipe]:
    assert VEC.build is not None
    build = msgspec.structs.replace(VEC.build, variants=VEC.build.variants[1:])
    return {**RECIPES, "vec": msgspec.structs.replace(VEC, build=build)}


def test_a_whole_lock(shelf: Shelf, home: Home) -> None:
    lock = locked(shelf, home, recipes=without_arch_variant())
    assert (lock.stack, lock.platform, lock.python) == ("small", "linux-x86_64", "3.12")
    assert lock.inputs == lock_inputs(STACK, without_arch_variant(), X86)
    torch = lock.components["pytorch"]
    assert torch.prebuilt is not None
    assert torch.prebuilt.file == "torch-2.14.1-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert [f"{file.name} {file.version}" for file in torch.run] == [
        "nvidia-link 13.0.88",
        "setuptools 84",
        "typing-extensions 4.16",
    ]
    assert [f"{file.name} {file.version}" for file in lock.toolkit] == [
        "cuda-toolkit 13.0.3.0",
        "nvidia-crt 13.0.88",
        "nvidia-link 13.0.88",
        "nvidia-nvcc 13.0.88",
    ]
    vec = lock.components["vec"]
    assert [file.file for file in vec.requires] == [
        "ninja-1.13-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    ]
    sdist = vec.sources["main"].file
    assert sdist is not None
    path = shelf.root / "simple" / "vec-kernels" / "vec_kernels-1.2.tar.gz"
    assert (sdist.name, sdist.version, sdist.file, sdist.size) == (
        "vec-kernels",
        "1.2",
        path.name,
        path.stat().st_size,
    )
    assert sdist.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_again_is_the_same_bytes(shelf: Shelf, home: Home) -> None:
    recipes = without_arch_variant()
    first, again = locked(shelf, home, recipes=recipes), locked(shelf, home, recipes=recipes)
    assert lock_bytes(first) == lock_bytes(again)
    assert b"://" not in lock_bytes(first)


def test_another_platform_and_python_from_this_machine(shelf: Shelf, home: Home) -> None:
    lock = locked(shelf, home, recipes=without_arch_variant(), target=ARM)
    torch = lock.components["pytorch"].prebuilt
    assert torch is not None
    assert torch.file == "torch-2.14.1-cp313-cp313-manylinux_2_28_aarch64.whl"
    assert [file.file for file in lock.components["vec"].requires] == [
        "ninja-1.13-py3-none-manylinux2014_aarch64.whl",
        "nvpl-1-py3-none-any.whl",
    ]


def on_torch() -> dict[str, Recipe]:
    """Vec is built with torch in its environment."""
    return {**RECIPES, "vec": msgspec.structs.replace(VEC, needs=Needs(build=("pytorch",)))}


def test_what_is_built_on_torch_shares_its_versions(shelf: Shelf, home: Home) -> None:
    """The newest setuptools would do for torch, and not for what is built on it."""
    lock = locked(shelf, home, recipes=on_torch())
    for files in (lock.components["pytorch"].run, lock.components["vec"].requires, lock.run):
        if found := [file.version for file in files if file.name == "setuptools"]:
            assert found == ["78"]
    assert [file.version for file in locked(shelf, home).components["vec"].requires] == ["3", "1.13", "78"]
    assert "84" in {file.version for file in locked(shelf, home).run}, "in another environment, others do"


def test_build_requirements_cannot_disagree_with_torch(shelf: Shelf, home: Home) -> None:
    shelf.wheel("hopper-tools", "3.1", requires=["setuptools<70"])
    assert VEC.build is not None
    build = Build(requires=("hopper-tools>3",))
    vec = msgspec.structs.replace(on_torch()["vec"], build=build)
    with pytest.raises(LockError, match="stack small cannot be resolved") as caught:
        locked(shelf, home, recipes={**RECIPES, "vec": vec})
    assert "setuptools<70" in caught.value.message
    assert "setuptools{python" in caught.value.message or "setuptools>=77" in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("version", ["2.99", "2.15.0rc1"])
def test_a_version_that_the_index_has_not(shelf: Shelf, home: Home, version: str) -> None:
    stack = msgspec.structs.replace(
        STACK, components={"pytorch": Component(version=version, prebuilt=True)}, toolkit=None
    )
    with pytest.raises(LockError, match="stack small cannot be resolved"):
        locked(shelf, home, stack=stack)


def test_a_package_without_wheels_is_named(shelf: Shelf, home: Home) -> None:
    shelf.sdist("cake", "1.0")
    assert VEC.build is not None
    vec = msgspec.structs.replace(VEC, build=Build(requires=("cake",)))
    with pytest.raises(LockError, match="cake"):
        locked(shelf, home, recipes={**RECIPES, "vec": vec})


def test_a_local_version_does_not_slip_in(shelf: Shelf, home: Home) -> None:
    shelf.wheel("torch", "2.14.1+cpu")
    with pytest.raises(LockError, match=r"offer torch 2\.14\.1\+cpu where the stack says 2\.14\.1"):
        locked(shelf, home, recipes=without_arch_variant())


@pytest.mark.parametrize(
    ("hashed", "words"), [(True, "no sdist of Vec_Kernels 1.9"), (False, "has no sha256")]
)
def test_an_sdist_that_cannot_be_locked(shelf: Shelf, home: Home, *, hashed: bool, words: str) -> None:
    if not hashed:
        shelf.sdist("vec-kernels", "1.9", hashed=False)
    components = {**STACK.components, "vec": Component(version="1.9")}
    stack = msgspec.structs.replace(STACK, components=components)
    with pytest.raises(LockError, match=words):
        locked(shelf, home, stack=stack, recipes=without_arch_variant())


def test_a_version_in_another_spelling_is_found(shelf: Shelf, home: Home) -> None:
    components = {**STACK.components, "vec": Component(version="1.2.0")}
    lock = locked(
        shelf,
        home,
        stack=msgspec.structs.replace(STACK, components=components),
        recipes=without_arch_variant(),
    )
    file = lock.components["vec"].sources["main"].file
    assert file is not None
    assert file.file == "vec_kernels-1.2.tar.gz"


def test_an_index_that_does_not_answer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    config = IndexConfig(index_urls=("http://127.0.0.1:9/simple",), find_links=())
    prebuilt = msgspec.structs.replace(STACK, components={"pytorch": STACK.components["pytorch"]})
    for stack, words in ((prebuilt, "cannot be resolved"), (STACK, "cannot be asked")):
        with pytest.raises(SourceError, match=words) as caught:
            make_lock(stack, RECIPES, X86, home=home, config=config)
        assert caught.value.exit_code == 5


def test_an_extra_index_and_a_folder_of_links(shelf: Shelf, home: Home, tmp_path: Path) -> None:
    """As pip does: the best version of all places."""
    more, links = Shelf(tmp_path / "more"), Shelf(tmp_path / "links")
    more.wheel("ninja", "1.14")
    file = links.wheel("typing-extensions", "4.99")
    config = IndexConfig(
        index_urls=(*shelf.config.index_urls, *more.config.index_urls), find_links=(str(file.parent),)
    )
    lock = make_lock(STACK, without_arch_variant(), X86, home=home, config=config)
    assert [each.version for each in lock.components["vec"].requires] == ["1.14"]
    assert lock.components["pytorch"].run[-1].version == "4.99"


def one_source(source: Source, *, commits: dict[str, str] | None = None) -> tuple[Stack, dict[str, Recipe]]:
    vec = msgspec.structs.replace(VEC, sources={"main": source}, build=Build())
    stack = msgspec.structs.replace(
        STACK, toolkit=None, components={"vec": Component(version="1.2", commits=commits or {})}
    )
    return stack, {"vec": vec}


def test_a_git_source_with_its_submodules(shelf: Shelf, home: Home, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner", {"file": "inner"})
    make_repository(tmp_path / "outer", {"file": "outer"})
    run_git(tmp_path / "outer", "submodule", "add", "-q", str(tmp_path / "inner"), "third/sub")
    outer = commit_files(tmp_path / "outer", {})
    stack, recipes = one_source(Source(git=str(tmp_path / "outer")), commits={"main": outer})
    source = locked(shelf, home, stack=stack, recipes=recipes).components["vec"].sources["main"]
    assert source.commit == outer
    assert source.submodules == {"third/sub": inner}
    stack, recipes = one_source(Source(git="nowhere", submodules=False), commits={"main": outer})
    source = locked(shelf, home, stack=stack, recipes=recipes).components["vec"].sources["main"]
    assert source.submodules is None, "without submodules nothing is fetched"


def test_an_archive_is_hashed(shelf: Shelf, home: Home) -> None:
    address = f"{shelf.root.as_uri()}/simple/vec-kernels/vec_kernels-{{version}}.tar.gz"
    stack, recipes = one_source(Source(archive=address))
    file = locked(shelf, home, stack=stack, recipes=recipes).components["vec"].sources["main"].file
    path = shelf.root / "simple" / "vec-kernels" / "vec_kernels-1.2.tar.gz"
    assert file is not None
    assert (file.name, file.file, file.size) == ("vec", path.name, path.stat().st_size)
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_local_folder_has_nothing_to_lock(shelf: Shelf, home: Home) -> None:
    stack, recipes = one_source(Source(local="../vec"))
    source = locked(shelf, home, stack=stack, recipes=recipes).components["vec"].sources["main"]
    assert (source.file, source.commit) == (None, None)


def test_a_git_source_needs_a_commit(shelf: Shelf, home: Home) -> None:
    stack, recipes = one_source(Source(git="https://example.org/x"))
    with pytest.raises(RecipeError, match="names no commit for git source 'main'") as caught:
        locked(shelf, home, stack=stack, recipes=recipes)
    assert "commits: {main:" in (caught.value.hint or "")


def test_progress_is_told(shelf: Shelf, home: Home) -> None:
    seen: list[Event] = []
    make_lock(STACK, without_arch_variant(), X86, home=home, config=shelf.config, emit=seen.append)
    assert any("build requirements of vec" in getattr(event, "text", "") for event in seen)


def with_more(**components: Component) -> Stack:
    return msgspec.structs.replace(STACK, components={**STACK.components, **components})


def test_the_runtime_closure_leaves_out_what_the_stack_has(shelf: Shelf, home: Home) -> None:
    shelf.sdist(
        "vec-kernels", "1.4", requires=["torch", "einops>=0.8; python_version > '3'", "no such word!"]
    )
    shelf.wheel("einops", "0.9")
    stack = with_more(vec=Component(version="1.4"))
    lock = locked(shelf, home, stack=stack, recipes=without_arch_variant())
    assert {file.name for file in lock.run} == {"einops", "nvidia-link", "setuptools", "typing-extensions"}
    assert lock.components["vec"].run == (), "nothing is built on it"


def test_a_conflict_is_told_in_the_names_of_both(shelf: Shelf, home: Home) -> None:
    shelf.sdist("vec-kernels", "1.4", requires=["typing-extensions<4"])
    shelf.wheel("typing-extensions", "3.9")
    shelf.wheel("strict", "1", requires=["typing-extensions>=4.16"])
    strict = Recipe(schema="sparkbuild.recipe/1", name="strict", summary="s")
    stack = with_more(vec=Component(version="1.4"), strict=Component(version="1", prebuilt=True))
    with pytest.raises(LockError, match="stack small cannot be resolved") as caught:
        locked(shelf, home, stack=stack, recipes={**without_arch_variant(), "strict": strict})
    assert re.search(r"\bvec\S* depends? on typing-extensions<4\b", caught.value.message)
    assert re.search(r"\bstrict\S* depends? on typing-extensions>=4\.16", caught.value.message)


def test_a_published_wheel_of_what_is_built(shelf: Shelf, home: Home) -> None:
    """Its requirements are those of the wheel, and the wheel itself is locked for who wants it."""
    source = Source(git="https://example.org/torch", submodules=False)
    torch = msgspec.structs.replace(TORCH, sources={"main": source}, build=Build())
    built = Component(version="2.14.1", published=True, commits={"main": "a" * 40})
    recipes = {**on_torch(), "pytorch": torch}
    seen = locked(shelf, home, stack=with_more(pytorch=built), recipes=recipes).components["pytorch"]
    assert seen.prebuilt is not None
    assert seen.prebuilt.file == "torch-2.14.1-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert [file.name for file in seen.run] == ["nvidia-link", "setuptools", "typing-extensions"]
    quiet = msgspec.structs.replace(built, published=False)
    seen = locked(shelf, home, stack=with_more(pytorch=quiet), recipes=recipes).components["pytorch"]
    assert (seen.prebuilt, seen.run) == (None, ()), "no index is asked for a name that may be a stranger's"


def test_constraints_hold_in_every_part(shelf: Shelf, home: Home) -> None:
    shelf.wheel("cuda-toolkit", "13.5.0", requires=["nvidia-nvcc==13.5.*; extra == 'nvcc'", "nvidia-link"])
    shelf.sdist("vec-kernels", "1.4", requires=["nvidia-nvcc"])
    stack = msgspec.structs.replace(
        with_more(vec=Component(version="1.4")),
        toolkit=Toolkit(version="==13.*", packages=("cuda-toolkit[nvcc]",)),
    )
    assert VEC.build is not None
    vec = msgspec.structs.replace(VEC, build=Build(requires=("nvidia-nvcc", "ninja")))
    recipes = {**RECIPES, "vec": vec}

    def nvcc(stack: Stack) -> list[str]:
        lock = locked(shelf, home, stack=stack, recipes=recipes)
        parts = (lock.toolkit, lock.run, lock.components["vec"].requires)
        return [file.version for files in parts for file in files if file.name == "nvidia-nvcc"]

    assert nvcc(stack) == ["13.5.37"] * 3
    held = msgspec.structs.replace(stack, constraints=("cuda-toolkit[nvcc]==13.0.*", "ninja<2"))
    assert nvcc(held) == ["13.0.88"] * 3, "an extra's pins hold without anybody asking for the extra"


@pytest.mark.network
@pytest.mark.parametrize("platform", [pytest.param("linux-x86_64", marks=pytest.mark.soak), "linux-aarch64"])
def test_the_closure_of_vllm_and_who_cannot_be_in_it(home: Home, platform: str) -> None:
    def bare(name: str) -> Recipe:
        return Recipe(schema="sparkbuild.recipe/1", name=name, summary="s")

    mamba = msgspec.structs.replace(
        bare("mamba-ssm"), sources={"main": Source(sdist="mamba-ssm")}, build=Build()
    )
    stack = Stack(
        schema="sparkbuild.stack/1",
        name="serving",
        summary="s",
        platforms=(platform,),
        pythons=("3.12",),
        constraints=("cuda-toolkit[nvcc,crt,cccl]==13.0.3", "cuda-python>=13,<14"),
        components={"vllm": Component(version="0.33.0", prebuilt=True)},
    )
    target = Target(platform, "3.12")
    versions = {
        file.name: file.version for file in make_lock(stack, {"vllm": bare("vllm")}, target, home=home).run
    }
    assert len(versions) > 150
    assert versions["nvidia-cuda-nvcc"] == versions["nvidia-cuda-crt"] == "13.0.88"
    assert versions["cuda-python"].startswith("13.")
    both = msgspec.structs.replace(
        stack, components={**stack.components, "mamba-ssm": Component(version="2.3.2.post1")}
    )
    with pytest.raises(LockError) as caught:
        make_lock(both, {"vllm": bare("vllm"), "mamba-ssm": mamba}, target, home=home)
    assert "mamba-ssm==2.3.2.post1 depends on" in caught.value.message
    assert "vllm>=0.33.0 depends on" in caught.value.message


@pytest.mark.network
def test_quickstart_resolves_for_another_machine(home: Home) -> None:
    catalog = Catalog(find_places()[-1:])
    stack = catalog.stack("quickstart")
    lock = make_lock(stack, catalog.recipes(stack.components), Target("linux-aarch64", "3.14"), home=home)
    torch = lock.components["pytorch"].prebuilt
    assert torch is not None
    assert torch.file == "torch-2.14.1-cp314-cp314-manylinux_2_28_aarch64.whl"
    versions = {file.name: file.version for file in lock.toolkit}
    assert versions["nvidia-cuda-nvcc"] == "13.0.88"
