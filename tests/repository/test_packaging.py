"""The wheel has the package; the sdist installs, its tests run, and type checkers accept a program."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import rlock

from ..cli.shell import done
from ..docs.pages import TOP

pytest.importorskip("build", reason="build is in the group test-all")


def files(folder: Path, name: str) -> dict[str, bytes]:
    """The files of a folder as they are in the wheel, but for what Python has compiled."""
    found = (path for path in (TOP / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"{name}/{path.relative_to(TOP / folder).as_posix()}": path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel, which `build` makes from the sdist, and the sdist."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(TOP)]
    made = done(command, timeout=120)
    assert made.code == 0, made
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def test_the_wheel_holds_package_and_scripts_and_its_page_no_relative_link(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        inside = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
        (page,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA"))
    assert inside == {**files(Path("rlock"), "rlock"), **files(Path("lua"), "rlock/lua")}
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert len(links) > 20


Run = Callable[..., str]


@pytest.fixture(scope="module")
def fresh(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A folder with the unpacked sdist and an environment that has it installed; a function runs commands.

    Nothing comes from the network: the environment sees the packages of this one, behind its own.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "venv", symlinks=True)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ["PATH"] = f"{folder}/venv/bin:{environ['PATH']}"

    def run(*command: str, cwd: Path = folder) -> str:
        ran = done(command, cwd=cwd, env=environ, timeout=200)
        assert ran.code == 0, ran
        return ran.out

    own = Path(run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "others.pth").write_text(sysconfig.get_path("purelib"))
    offline = ("-q", "-I", "--no-deps", "--no-index", "--no-build-isolation")
    run("python", "-m", "pip", "install", *offline, str(built[1]))
    with tarfile.open(built[1]) as sdist:
        sdist.extractall(folder, filter="data")
    return folder, run


@pytest.mark.timeout(400)
def test_the_sdist_has_all_files_installs_and_its_tests_run(fresh: tuple[Path, Run]) -> None:
    folder, run = fresh
    (top,) = folder.glob("quorum_rlock-*")
    listed = done(["git", "ls-files"], cwd=TOP).out.splitlines()
    assert [name for name in listed if (TOP / name).exists() and not (top / name).exists()] == []
    found = run("python", "-c", "from rlock.rules import scripts; print(len(scripts.ALL), scripts.folder())")
    number, place = found.split()
    assert int(number) == len(files(Path("lua"), ""))
    assert Path(place).is_relative_to(folder / "venv")
    assert run("rlock", "--version").split()[-1] == rlock.__version__
    assert "error" not in run("python", "-m", "pytest", "-q", "--collect-only", cwd=top).splitlines()[-1]
    run("python", "-m", "pytest", "-q", "tests/core/test_lease.py", "tests/scripts/test_fence.py", cwd=top)


@pytest.mark.parametrize(
    ("checker", "command"),
    [
        ("mypy", "mypy --strict --python-executable venv/bin/python program.py"),
        ("basedpyright", "basedpyright --pythonpath venv/bin/python program.py"),
    ],
)
def test_strict_type_checkers_accept_a_program(checker: str, command: str, fresh: tuple[Path, Run]) -> None:
    pytest.importorskip(checker, reason=f"{checker} is in the group test-all")
    folder, run = fresh
    shutil.copy(Path(__file__).parent / "typed_program.py", folder / "program.py")
    strict = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}
    (folder / "pyrightconfig.json").write_text(json.dumps({"include": ["program.py"], **strict}))
    run("python", "-m", *command.split())
