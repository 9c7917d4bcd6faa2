"""docs/messages.md has each text that rlock logs, or raises while it runs; and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlock._client.endpoints import _URLS, ONE_SERVER
from rlock._client.sentinel import FORM

from ..repository.test_house import MODULES, ROOT
from .pages import DOCS

#: Calls with a text for people.
SAY = {"Fault", "broken", "RLockError", "warning", "error", "info", "exception"}
#: Within other messages, or for nobody.
INNER = {"not needed any more", "… …", "…: …", "fixed lease", ONE_SERVER, _URLS.replace(FORM, "…")}
HOLE = "…"


def text(node: ast.expr | None) -> str:
    """A text in the source, with a hole for what is filled in; empty: it is none."""
    if isinstance(node, ast.Constant):
        return re.sub(r"%[-.\d]*[a-z]|\{[^}]*\}", HOLE, node.value) if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) or HOLE for part in node.values)
    if isinstance(node, ast.BinOp):
        return (text(node.left) or HOLE) + (text(node.right) or HOLE)
    return ""


def said(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = getattr(called, "id", None) or getattr(called, "attr", "")
            on_log = isinstance(called, ast.Attribute) and getattr(called.value, "id", "") == "log"
            if name in SAY and (on_log or isinstance(called, ast.Name)):
                yield from map(text, node.args)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("_text", "text"):
            yield text(node.value)
        elif node in tree.body and isinstance(node, ast.Assign):
            yield text(node.value)  # of a constant


def texts() -> set[str]:
    places = {path: path.relative_to(ROOT).parts for path in MODULES}
    core = [path for path, parts in places.items() if parts[0] not in ("cli", "testing", "telemetry")]
    found = {each for path in core for each in said(ast.parse(MODULES[path]))}
    return {each for each in found if " " in each.replace(HOLE, "").strip()} - INNER


def test_the_page_has_each_message_and_no_other() -> None:
    page = (DOCS / "messages.md").read_text(encoding="utf-8").partition("## Asked often")[0]
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    shown = {message for row in rows for message in re.findall(r"`([^`]*)`", row)}
    known = texts()
    patterns = {message: re.escape(message).replace(HOLE, ".*") for message in shown}
    assert not [each for each in known if not any(re.fullmatch(p, each) for p in patterns.values())]
    assert not [
        message for message, p in patterns.items() if not any(re.fullmatch(p, each) for each in known)
    ]
