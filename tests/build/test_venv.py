"""Build environments: real ones, whose Python really runs."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from wheelmaker import make_layer, make_wheel

from orchestrator.build.venv import Environment, add_wheels, make_environment
from orchestrator.errors import BuildFailedError, MachineError

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = (
    "[console_scripts]\nhello = hello:main\nother = hello.sub:run [extra]\n[gui_scripts]\nshow = hello:main\n"
)


def ask(environment: Environment, code: str) -> str:
    return tool(environment, str(environment.python), "-c", code)


def tool(environment: Environment, *argv: str) -> str:
    env = {"PATH": f"{environment.bin}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    files = {"hello/__init__.py": "WHO = 'layer'\ndef main(): print('hello from', WHO)\n"}
    return make_layer(tmp_path / "it's a layer", "hello", "1.0", files, entry_points=SCRIPTS)


def test_it_sees_its_layers_and_nothing_else(tmp_path: Path, layer: Path) -> None:
    environment = make_environment(tmp_path / "env", layers=[layer])
    assert ask(environment, "import hello; print(hello.WHO, hello.__file__)").startswith("layer ")
    places = ask(
        environment,
        "import sys; print(*(p for p in sys.path if 'site-packages' in p or '/site' in p), sep='|')",
    )
    assert places.split("|") == [str(folder) for folder in environment.search_path]
    assert ask(environment, "import sys; print(sys.prefix)") == str(environment.prefix)
    assert (
        subprocess.run([environment.python, "-c", "import pip"], check=False, capture_output=True).returncode
        == 1
    )


def test_the_first_layer_has_precedence(tmp_path: Path, layer: Path) -> None:
    scripts = "[console_scripts]\nhello = hello:other\n"
    files = {"hello/__init__.py": "WHO = 'first'\ndef other(): print('other')\n"}
    first = make_layer(tmp_path / "first", "hello", "2.0", files, entry_points=scripts)
    environment = make_environment(tmp_path / "env", layers=[first, layer])
    assert ask(environment, "import hello; print(hello.WHO)") == "first"
    assert tool(environment, "hello") == "other"


def test_console_scripts_run(tmp_path: Path, layer: Path) -> None:
    environment = make_environment(tmp_path / "env", layers=[layer])
    assert tool(environment, "hello") == tool(environment, "show") == "hello from layer"
    assert (environment.bin / "other").is_file()


def test_scripts_of_a_layer(tmp_path: Path, layer: Path) -> None:
    scripts = layer / "scripts"
    scripts.mkdir()
    (scripts / "who").write_text("#!python\nimport hello; print(hello.WHO)\n")
    (scripts / "plain").write_text("#!/bin/sh\necho plain\n")
    (scripts / "python3").write_text("#!/bin/sh\necho stolen\n")
    for file in scripts.iterdir():
        file.chmod(0o755)
    environment = make_environment(tmp_path / "env", layers=[layer])
    assert tool(environment, "who") == "layer"
    assert tool(environment, "plain") == "plain"
    assert (environment.bin / "plain").is_symlink()
    assert tool(environment, "python3", "-c", "print(1)") == "1"
    assert (scripts / "who").read_text().startswith("#!python\n")


def test_data_of_a_layer(tmp_path: Path, layer: Path) -> None:
    file = layer / "data" / "share" / "thing" / "x.cmake"
    file.parent.mkdir(parents=True)
    file.write_text("set(X 1)")
    environment = make_environment(tmp_path / "env", layers=[layer])
    assert (environment.prefix / "share" / "thing" / "x.cmake").read_text() == "set(X 1)"


def test_pth_files_inside_a_layer_count(tmp_path: Path, layer: Path) -> None:
    (layer / "site" / "inner").mkdir()
    (layer / "site" / "inner" / "deep.py").write_text("X = 7\n")
    (layer / "site" / "inner.pth").write_text("inner\n")
    environment = make_environment(tmp_path / "env", layers=[layer])
    assert ask(environment, "import deep; print(deep.X)") == "7"


def test_without_layers(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "env")
    assert environment.search_path == (environment.site,)
    assert ask(environment, "print(1)") == "1"


def test_it_is_cheap(tmp_path: Path, layer: Path) -> None:
    begin = time.process_time()
    for number in range(10):
        make_environment(tmp_path / f"env{number}", layers=[layer])
    assert time.process_time() - begin < 1.0  # 3 ms each; a `python -m venv` takes seconds


def test_a_folder_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "file").write_text("")
    with pytest.raises(MachineError, match="not empty"):
        make_environment(tmp_path / "env")


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be made"):
        make_environment(tmp_path / "file" / "env")
    with pytest.raises(MachineError, match="PATH separator"):
        make_environment(tmp_path / "a:b")


@pytest.mark.parametrize(
    "text",
    ["[console_scripts]\n../../evil = hello:main\n", "[console_scripts]\nhello = no colon\n", "nonsense"],
)
def test_malformed_entry_points(tmp_path: Path, text: str) -> None:
    layer = make_layer(tmp_path / "layer", "hello", "1.0", {"hello.py": ""}, entry_points=text)
    with pytest.raises(MachineError) as caught:
        make_environment(tmp_path / "env", layers=[layer])
    assert caught.value.hint == "the wheel is malformed"


class TestAddWheels:
    def test_they_come_before_the_layers(self, tmp_path: Path, layer: Path) -> None:
        wheel = make_wheel(
            tmp_path,
            "hello",
            "3.0",
            {
                "hello/__init__.py": "WHO = 'wheel'\ndef main(): print(WHO)\n",
                "hello-3.0.data/scripts/say": "#!python\nimport hello; hello.main()\n",
                "hello-3.0.data/data/share/x": "x",
            },
            entry_points=SCRIPTS,
        )
        (layer / "scripts").mkdir()
        (layer / "scripts" / "say").write_text("#!/bin/sh\necho layer\n")
        environment = make_environment(tmp_path / "env", layers=[layer])
        add_wheels(environment, [wheel])
        assert ask(environment, "import hello; print(hello.WHO)") == "wheel"
        assert tool(environment, "hello") == tool(environment, "say") == "wheel"
        assert (environment.prefix / "share" / "x").read_text() == "x"
        code = "from importlib.metadata import distribution as d; h = d('hello'); "
        code += "print(h.version, h.read_text('INSTALLER'))"
        assert ask(environment, code).split() == ["3.0", "sparkbuild"]
        assert (layer / "scripts" / "say").read_text() == "#!/bin/sh\necho layer\n"

    def test_none_is_fine(self, tmp_path: Path) -> None:
        add_wheels(make_environment(tmp_path / "env"), [])

    def test_two_that_hold_the_same_file(self, tmp_path: Path) -> None:
        one = make_wheel(tmp_path, "one", "1", {"same.py": "a"})
        two = make_wheel(tmp_path, "two", "1", {"same.py": "b"})
        with pytest.raises(BuildFailedError, match=r"same\.py") as caught:
            add_wheels(make_environment(tmp_path / "env"), [one, two])
        assert caught.value.where == str(two)

    @pytest.mark.parametrize("name", ["broken-1.0-py3-none-any.whl", "noname.whl"])
    def test_what_is_no_wheel(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"no zip")
        with pytest.raises(BuildFailedError, match="cannot be unpacked"):
            add_wheels(make_environment(tmp_path / "env"), [tmp_path / name])

    def test_a_file_outside(self, tmp_path: Path) -> None:
        wheel = make_wheel(tmp_path, "evil", "1", {"../../../../evil.py": "x"})
        with pytest.raises(BuildFailedError, match="cannot be unpacked"):
            add_wheels(make_environment(tmp_path / "env"), [wheel])
        assert not list(tmp_path.rglob("evil.py"))
