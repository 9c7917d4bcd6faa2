"""How much code stands between `lock.acquire()` and the socket, and how large its parts are."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import FrameType

import pytest

import rlock
from rlock._client.connection import Connection
from rlock.testing import memory_client

ROOT = Path(rlock.__file__).resolve().parent
CORE = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[0] not in ("program", "cli", "telemetry", "testing")
]


def frames_between(write: str) -> list[str]:
    """The functions of rlock on the stack when an acquire writes, as `file:function`, from the outside."""
    found: list[list[str]] = []

    def seen(frame: FrameType, event: str, _: object) -> None:
        if (
            event == "call"
            and frame.f_code.co_name == write
            and isinstance(frame.f_locals.get("self"), Connection)
        ):
            stack, outer = [], frame.f_back
            while outer is not None:
                if "/rlock/" in outer.f_code.co_filename and "/testing/" not in outer.f_code.co_filename:
                    name = Path(outer.f_code.co_filename).relative_to(ROOT)
                    stack.append(f"{name}:{outer.f_code.co_name}")
                outer = outer.f_back
            found.append(stack[::-1])

    with memory_client(3) as client:
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
    return found[0]


def test_from_acquire_to_send_there_are_at_most_nine_frames_in_six_files() -> None:
    """Generators on the way are on the stack as well, and are counted."""
    frames = frames_between("send")
    assert frames[0] == "lock.py:acquire"
    assert len(frames) <= 9, frames
    assert len({frame.partition(":")[0] for frame in frames}) <= 6, frames


def test_the_core_has_at_most_9500_lines() -> None:
    lua = (ROOT.parent / "lua").glob("*.lua")
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in [*CORE, *lua])
    assert lines <= 9_500


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_of_the_core_is_over_350_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 350


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
