"""Which wheel of a package a target takes."""

from __future__ import annotations

import pytest

from orchestrator.errors import LockError
from orchestrator.model.platform import Target
from orchestrator.source.pylock import chosen_wheels, platform_tags

X86 = Target("linux-x86_64", "3.12")
ARM = Target("linux-aarch64", "3.14")
SHA = "a" * 64


def package(
    name: str, *files: str, sha256: str | None = SHA, size: int | None = 7, version: str = "1.0"
) -> str:
    hashes = f'hashes = {{ sha256 = "{sha256}" }}' if sha256 else 'hashes = { md5 = "0" }'
    told = f"size = {size}, " if size is not None else ""
    wheels = ", ".join(f'{{ url = "https://example.org/x/{file}", {told}{hashes} }}' for file in files)
    return f'[[packages]]\nname = "{name}"\nversion = "{version}"\nwheels = [{wheels}]\n'


def chosen(*files: str, target: Target = X86) -> str:
    return chosen_wheels(package("vec", *files), target)["vec"].file


def test_the_fields_of_a_wheel() -> None:
    wheel = chosen_wheels(package("Big_Name", "big_name-1.0-py3-none-any.whl"), X86)["big-name"]
    assert (wheel.version, wheel.sha256, wheel.size) == ("1.0", SHA, 7)
    assert wheel.url == "https://example.org/x/big_name-1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("files", "best"),
    [
        (["vec-1.0-py3-none-any.whl", "vec-1.0-cp312-cp312-manylinux_2_17_x86_64.whl"], 1),
        (
            [
                "vec-1.0-cp312-cp312-manylinux_2_17_x86_64.whl",
                "vec-1.0-cp312-cp312-manylinux_2_28_x86_64.whl",
            ],
            1,
        ),
        (
            ["vec-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "vec-1.0-cp312-abi3-manylinux_2_28_x86_64.whl"],
            0,
        ),
        (["vec-1.0-cp38-abi3-manylinux2014_x86_64.whl", "vec-1.0-py3-none-any.whl"], 0),
        (["vec-1.0-cp313-cp313-manylinux_2_28_x86_64.whl", "vec-1.0-cp38-abi3-manylinux1_x86_64.whl"], 1),
        (["vec-1.0-cp312-cp312-musllinux_1_2_x86_64.whl", "vec-1.0-py2.py3-none-any.whl"], 1),
        (["vec-1.0-cp312-cp312-manylinux_2_34_x86_64.whl", "vec-1.0-py3-none-linux_x86_64.whl"], 1),
        (
            [
                "vec-1.0-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
                "vec-1.0-py3-none-any.whl",
            ],
            0,
        ),
        (
            [
                "vec-1.0-cp312-cp312-manylinux_2_28_aarch64.whl",
                "vec-1.0-cp312-cp312t-manylinux_2_28_x86_64.whl",
                "vec-1.0-py3-none-any.whl",
            ],
            2,
        ),
    ],
)
def test_the_best_wheel(files: list[str], best: int) -> None:
    assert chosen(*files) == files[best]
    assert chosen(*reversed(files)) == files[best]


def test_another_target_takes_another_wheel() -> None:
    files = [
        "vec-1.0-cp314-cp314-manylinux_2_28_x86_64.whl",
        "vec-1.0-cp314-cp314-manylinux_2_28_aarch64.whl",
    ]
    assert chosen(*files, target=ARM) == files[1]


def test_file_names_in_addresses_are_decoded() -> None:
    wheel = chosen_wheels(package("vec", "vec-1.0%2Bcu130-py3-none-any.whl", version="1.0+cu130"), X86)["vec"]
    assert wheel.file == "vec-1.0+cu130-py3-none-any.whl"


def test_a_package_without_a_fitting_wheel_is_named() -> None:
    with pytest.raises(
        LockError, match=r"vec 1\.0 has no wheel for this target; there is vec-1.0-cp312-cp312-win"
    ) as caught:
        chosen("vec-1.0-cp312-cp312-win_amd64.whl")
    assert caught.value.where == "linux-x86_64, Python 3.12"
    with pytest.raises(LockError, match="there is no wheel"):
        chosen_wheels('[[packages]]\nname = "vec"\nversion = "1.0"\n', X86)


def test_a_wheel_without_sha256() -> None:
    with pytest.raises(LockError, match=r"no sha256 for vec-1\.0-py3-none-any\.whl"):
        chosen_wheels(package("vec", "vec-1.0-py3-none-any.whl", sha256=None), X86)


def test_a_size_that_is_not_told_stays_open() -> None:
    assert chosen_wheels(package("vec", "vec-1.0-py3-none-any.whl", size=None), X86)["vec"].size is None


def test_no_packages_and_no_toml() -> None:
    assert chosen_wheels('lock-version = "1.0"\n', X86) == {}
    with pytest.raises(LockError, match=r"no pylock\.toml"):
        chosen_wheels("= [", X86)


def test_platform_tags_end_where_the_architecture_begins() -> None:
    x86, arm = platform_tags(X86), platform_tags(ARM)
    assert x86[0] == "manylinux_2_28_x86_64"
    assert x86.index("manylinux2014_x86_64") == x86.index("manylinux_2_17_x86_64") + 1
    assert "manylinux1_x86_64" in x86
    assert arm[-2:] == ["manylinux2014_aarch64", "linux_aarch64"]
