"""The wheel, the sdist and an editable install all find the scripts, and they are those of `lua/`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import rlock

TOP = Path(rlock.__file__).resolve().parent.parent
SOURCES = {path.name: path.read_bytes() for path in (TOP / "lua").glob("*.lua")}

pytest.importorskip("build", reason="the package `build` is not installed")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(TOP)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def found_from(place: Path) -> str:
    """Where a Python that sees only ``place`` finds the scripts, and how many."""
    program = (
        f"import sys; sys.path.insert(0, {str(place)!r}); import rlock; from rlock.rules import scripts; "
        "print(rlock.__file__, len(scripts.ALL), scripts.folder())"
    )
    # -P and the path in front: not the checkout, whose editable install stands further behind.
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd="/"
    )
    assert str(place) in done.stdout.split()[0], "this is another rlock"
    return done.stdout.split()[2]


def test_the_wheel_holds_the_scripts_of_the_folder_and_no_others(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        inside = {
            name.rpartition("/")[2]: wheel.read(name) for name in wheel.namelist() if name.endswith(".lua")
        }
        assert inside == SOURCES
        assert "rlock/py.typed" in wheel.namelist()
        assert {name.split("/")[0] for name in wheel.namelist() if "dist-info" not in name} == {"rlock"}
        wheel.extractall(tmp_path)
    assert found_from(tmp_path) == str(tmp_path / "rlock" / "lua")


def test_wheel_and_sdist_hold_the_page_of_the_dashboard(built: tuple[Path, Path]) -> None:
    place = "rlock/cli/dashboard/page/"
    there = {path.name: path.read_bytes() for path in (TOP / place).iterdir()}
    with zipfile.ZipFile(built[0]) as wheel:
        names = [name for name in wheel.namelist() if name.startswith(place)]
        assert {name.removeprefix(place): wheel.read(name) for name in names} == there
    with tarfile.open(built[1]) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert inside >= {place + name for name in there}


def test_the_sdist_holds_them_at_its_top_and_works_unpacked(built: tuple[Path, Path], tmp_path: Path) -> None:
    with tarfile.open(built[1]) as sdist:
        sdist.extractall(tmp_path)
    (top,) = tmp_path.iterdir()
    assert {path.name: path.read_bytes() for path in (top / "lua").glob("*.lua")} == SOURCES
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "compose.yaml", "tests", "bench"} <= {
        path.name for path in top.iterdir()
    }
    assert found_from(top) == str(top / "lua")
