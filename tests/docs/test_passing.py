"""What the pages say in passing: commands, options and names of Python between backticks are there."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import rlock
import rlock.asyncio
from rlock import events
from rlock.cli.main import cli

from .pages import PAGES, TOP

ROOT = click.Context(cli, info_name="rlock", **cli.context_settings)
#: What stands for an object of ours in a sentence.
OBJECTS = {"client": (rlock.Client, rlock.asyncio.Client), "lock": (rlock.RLock, rlock.asyncio.RLock)}
#: Names of spans, attributes and instruments.
TOLD = "".join(path.read_text(encoding="utf-8") for path in (TOP / "rlock" / "telemetry").glob("*.py"))
#: Events of spans bear the names of ours.
EVENTS = {
    "rlock" + re.sub("([A-Z])", r"_\1", kind.__name__).lower().replace("_", ".", 1)
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, events.Event)
}
#: Of others: redis-py's lock is `client.lock(...)`, and pages speak of a master's settings.
FOREIGN = re.compile(r"lock\.(old|new|valid)\b")


def inline(text: str) -> Iterator[str]:
    """What stands between backticks, blocks left out."""
    text = re.sub(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
        yield " ".join(found.split())


def wrong_command(said: str) -> str:
    """Why the command line would refuse these words; empty: it would not, or it is no command."""
    if not re.match(r"rlock [a-z-]", said):
        return ""
    words = shlex.split(re.split(r" [|>] |; ", said)[0].replace("...", "").replace("[", "").replace("]", ""))
    verb = words[1]
    if verb.startswith("-"):
        return "" if verb in known(cli) else f"rlock has no {verb}"
    command = cli.get_command(ROOT, verb)
    if command is None:
        return f"there is no command {verb}"
    for word in words[2:]:
        if word == "--":
            break
        name = word.partition("=")[0]
        if name.startswith("-") and name not in known(command):
            return f"{verb} has no option {name}"
    return ""


def known(command: click.Command) -> set[str]:
    context = click.Context(command, info_name=command.name, parent=ROOT)
    params = command.get_params(context)
    return {opt for param in params for opt in (*param.opts, *param.secondary_opts)}


def wrong_name(said: str) -> str:
    """What of a dotted name is not there; empty: all of it, or it is none of ours."""
    found = re.match(r"(client|lock|rlock)((?:\.\w+)+)", said)
    if found is None or FOREIGN.match(said) or re.match(r"rlock\.(toml|json)", said):
        return ""
    first, names = found[1], found[2][1:].split(".")
    if first in OBJECTS:
        there = any(hasattr(kind, names[0]) for kind in OBJECTS[first])
        return "" if there else f"no {first} has {names[0]}"
    if found[0] in EVENTS or re.search(rf'"{re.escape(found[0])}\b', TOLD):
        return ""
    thing: object = rlock
    path = "rlock"
    for name in names:
        path = f"{path}.{name}"
        if not hasattr(thing, name):
            try:
                importlib.import_module(path)
            except ImportError:
                return f"there is no {path}"
        thing = getattr(thing, name)
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_what_a_page_names_is_there(page: Path) -> None:
    for package in ("prometheus_client", "opentelemetry"):
        pytest.importorskip(package)
    said = list(inline(page.read_text(encoding="utf-8")))
    assert [f"{each}: {why}" for each in said if (why := wrong_command(each) or wrong_name(each))] == []


# -- it has to notice --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        "rlock statsu NAME",
        "client.stats(name)",
    ],
)
def test_what_is_not_there_is_noticed(said: str) -> None:
    (found,) = inline(f"Use `{said}` for it.\n\n```python\n`no`\n```\n")
    assert wrong_command(found) or wrong_name(found)
