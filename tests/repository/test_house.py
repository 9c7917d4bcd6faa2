"""The house: files are of one piece, the scripts are where they are looked for.

And how much code stands between `lock.acquire()` and the socket. pyproject.toml says who may import whom.
"""

from __future__ import annotations

import socket
import sys
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.rules import scripts

ROOT = Path(rlock.__file__).resolve().parent
TOP = ROOT.parent
#: The text of each module.
MODULES = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
AROUND = ("cli", "compat", "telemetry", "testing", "__main__.py")
CORE = [path for path in MODULES if path.relative_to(ROOT).parts[0] not in AROUND]
#: The decorator stands on the public lock, and its lines count as those of the core.
DECORATOR = ("decorated", "decorator", "name_templates")
RECIPES = [path for path in CORE if path.parent.name == "recipes" and path.stem not in DECORATOR]


@pytest.mark.parametrize(
    "path",
    [
        *ROOT.rglob("*.py"),
        *(TOP / "lua").glob("*.lua"),
        *(TOP / "tests").rglob("*.py"),
        *(TOP / "evidence").rglob("*.py"),
        # Not the packages of the contestants' environments.
        *(path for path in (TOP / "bench").rglob("*.py") if ".environments" not in path.parts),
    ],
    ids=lambda path: str(path.relative_to(TOP)),
)
def test_no_file_is_over_400_lines_and_none_of_the_core_over_350(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= (350 if path in CORE else 400)


def test_every_script_of_the_folder_is_loaded_and_no_other() -> None:
    files = {entry.name for entry in scripts.folder().iterdir() if entry.name.endswith(".lua")}
    assert files == {f"{script.name}.lua" for script in scripts.ALL}


def test_the_public_names_are_there_and_documented() -> None:
    for name in rlock.__all__:
        assert getattr(rlock, name).__doc__, name
        assert hasattr(rlock.asyncio, name), f"rlock.asyncio lacks {name}"
        if name not in ("Client", "Lock", "LossSignal", "RLock"):
            assert getattr(rlock.asyncio, name) is getattr(rlock, name)


@pytest.mark.parametrize("name", ["Client", "RLock"])
def test_the_asyncio_twin_has_the_same_public_names_and_arguments(name: str) -> None:
    blocking, tasks = getattr(rlock, name), getattr(rlock.asyncio, name)
    public = {word for word in dir(blocking) if not word.startswith("_")}
    assert public == {word for word in dir(tasks) if not word.startswith("_")}
    for word in sorted(public | {"__init__"}):
        made = getattr(blocking, word)
        if callable(made):
            assert list(signature(made).parameters) == list(signature(getattr(tasks, word)).parameters), word


def frames_of_a_write(urls: list[str]) -> list[str]:
    """The frames of rlock on the stack when an acquire writes to a socket, as `file:function`."""
    found: list[list[str]] = []

    def seen(frame: FrameType, event: str, function: Any) -> None:
        owner = getattr(function, "__self__", None)
        if event == "c_call" and function.__name__.startswith("send") and isinstance(owner, socket.socket):
            stack: list[str] = []
            caller: FrameType | None = frame
            while caller is not None:
                path = Path(caller.f_code.co_filename)
                if path.is_relative_to(ROOT):
                    stack.append(f"{path.relative_to(ROOT)}:{caller.f_code.co_name}")
                caller = caller.f_back
            found.append(stack)

    with rlock.Client(urls) as client:
        lock = client.lock("x")
        with lock:
            pass
        sys.setprofile(seen)
        try:
            lock.acquire()
        finally:
            sys.setprofile(None)
        lock.release()
    assert found, "nothing was written"
    return max(found, key=len)


def test_the_core_does_not_grow() -> None:
    """The aim is 9,500 lines."""
    lua = [path.read_text(encoding="utf-8") for path in (TOP / "lua").glob("*.lua")]
    recipes = sum(len(MODULES[path].splitlines()) for path in RECIPES)
    core = sum(len(text.splitlines()) for text in (*(MODULES[path] for path in CORE), *lua))
    assert recipes <= 893
    assert core - recipes <= 11_643
