"""The shipped patches apply to the very sources that the locks name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.specifiers import SpecifierSet

from orchestrator.model.catalog import Catalog, find_places
from orchestrator.model.platform import Target
from orchestrator.source.fetch import fetch_source
from orchestrator.source.patch import apply, judge
from orchestrator.source.patch_format import FIELDS, read_patch

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.store.home import Home


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(find_places()[-1:])


def test_every_patch_says_why_and_until_when(catalog: Catalog) -> None:
    read = [
        read_patch(path) for name in catalog.names() for path in catalog.patch_files(catalog.recipe(name))
    ]
    assert read
    for patch in read:
        assert patch.header.keys() >= set(FIELDS), patch.where
        assert all(patch.header[field] for field in FIELDS), patch.where
        SpecifierSet(versions if (versions := patch.header["Versions"])[0] in "<>=!~" else f"=={versions}")


def test_every_patch_file_is_used(catalog: Catalog) -> None:
    used = {path for name in catalog.names() for path in catalog.patch_files(catalog.recipe(name))}
    assert set(catalog.places[0].patches.rglob("*.patch")) == used


@pytest.mark.network
def test_causal_conv1d_follows_the_requested_arch_and_nothing_else(
    catalog: Catalog, home: Home, tmp_path: Path
) -> None:
    recipe = catalog.recipe("causal-conv1d")
    locked = catalog.lock("quickstart", Target("linux-x86_64", "3.12")).components["causal-conv1d"]
    source = fetch_source(
        name="main",
        source=recipe.sources["main"],
        locked=locked.sources["main"],
        version=locked.version,
        home=home,
    )
    tree = tmp_path / "tree"
    source.lay(tree)
    before = (tree / "setup.py").read_text(encoding="utf-8")
    assert before.count('"-gencode"') == 9
    (judged,) = apply(tree, [read_patch(path) for path in catalog.patch_files(recipe)])
    assert judged.moved == ()
    after = (tree / "setup.py").read_text(encoding="utf-8")
    compile(after, "setup.py", "exec")
    assert '"-gencode"' not in after
    assert '"--threads", "4"' not in after
    changed = {line.strip() for line in set(after.splitlines()) - set(before.splitlines())}
    assert 'cc_flag.extend(os.getenv("SPARKBUILD_NVCC_GENCODE", "").split())' in changed
    assert len(changed) == 8
    (again,) = judge(tree, [read_patch(path) for path in catalog.patch_files(recipe)])
    assert again.state == "already-upstream"
