"""The wheel has the package; the sdist installs, and its tests run; groups have what tests ask for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import rlock

TOP = Path(rlock.__file__).resolve().parent.parent
GROUPS = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]

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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def test_the_wheel_holds_the_package_and_the_scripts_and_its_page_no_relative_link(
    built: tuple[Path, Path],
) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        inside = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
        (page,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA"))
    assert inside == {**files(Path("rlock"), "rlock"), **files(Path("lua"), "rlock/lua")}
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert len(links) > 20


@pytest.mark.timeout(400)
def test_the_sdist_installs_in_a_fresh_environment_and_its_tests_run(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """Nothing comes from the network: the environment sees the packages of this one, behind its own."""
    with tarfile.open(built[1]) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (top,) = tmp_path.iterdir()
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    listed = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True).stdout.splitlines()
    assert [name for name in listed if (TOP / name).exists() and not (top / name).exists()] == []
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str, cwd: Path = tmp_path) -> str:
        done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "others.pth").write_text(sysconfig.get_path("purelib"))
    run(
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "-I",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        str(built[1]),
    )
    found = run(
        python, "-c", "from rlock.rules import scripts; print(len(scripts.ALL), scripts.folder())"
    ).split()
    assert found == [str(len(files(Path("lua"), ""))), str(own / "rlock" / "lua")]
    assert run(str(tmp_path / "venv" / "bin" / "rlock"), "--version").split()[-1] == rlock.__version__
    assert "error" not in run(python, "-m", "pytest", "-q", "--collect-only", cwd=top).splitlines()[-1]
    run(python, "-m", "pytest", "-q", "tests/core/test_lease.py", "tests/scripts/test_fence.py", cwd=top)


def test_a_group_that_a_test_asks_for_has_the_package() -> None:
    texts = (path.read_text(encoding="utf-8") for path in (TOP / "tests").rglob("*.py"))
    named = [found for text in texts for found in re.findall(r"\b([\w-]+) is in the group ([\w-]+)", text)]
    assert [one for one in named if not any(str(line).startswith(one[0]) for line in GROUPS[one[1]])] == []
    assert len(named) > 10
