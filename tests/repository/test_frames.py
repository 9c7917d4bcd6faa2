"""How much code stands between `lock.acquire()` and the socket, and how large its parts are."""

from __future__ import annotations

import ast
import inspect
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import rlock

from ..servers import Fleet

ROOT = Path(rlock.__file__).resolve().parent
CORE = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[0] not in ("cli", "telemetry", "testing")
]
RECIPES = [path for path in CORE if path.relative_to(ROOT).parts[0] == "recipes"]


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


def test_from_acquire_to_the_socket_there_are_at_most_nine_frames_in_six_files(masters3: Fleet) -> None:
    """Suspended generators on the way are on the stack as well, so they count."""
    frames = frames_of_a_write(masters3.urls)
    assert frames[-1] == "lock.py:acquire"
    assert len(frames) <= 9, frames
    assert len({frame.partition(":")[0] for frame in frames}) <= 6, frames


def test_the_core_does_not_grow() -> None:
    """The aim is 9,500 lines."""
    lua = (ROOT.parent / "lua").glob("*.lua")
    lines = sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in [*CORE, *lua] if path not in RECIPES
    )
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in RECIPES) <= 922
    assert lines <= 11_302


def fields(node: ast.ClassDef) -> set[str]:
    """What instances of a class keep: annotated fields of a tuple or data class, and what methods assign."""
    found = {
        target.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
        for target in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    decorators = {
        inspect.cleandoc(ast.unparse(decorator)).partition("(")[0] for decorator in node.decorator_list
    }
    if bases & {"NamedTuple"} or "dataclass" in decorators:
        found |= {
            part.target.id
            for part in node.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
    return found


CLASSES = [
    (f"{path.relative_to(ROOT)}:{node.name}", node)
    for path in CORE
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.ClassDef)
]


@pytest.mark.parametrize(("name", "node"), CLASSES, ids=[name for name, _ in CLASSES])
def test_no_class_of_the_core_has_more_than_twelve_fields(name: str, node: ast.ClassDef) -> None:
    assert len(fields(node)) <= 12, f"{name}: {sorted(fields(node))}"
