"""What a shell's TAB offers: names of locks, asked of the masters, and programs. Silent on failure."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..rules import replies
from ..rules.keys import is_lock
from .numbers import whole
from .settings import Settings

#: A person waits with a finger on the key: all masters together may take this long.
PATIENCE_S = 0.6
MASTER_S = 0.25
MOST = 100
#: Names that mean themselves in every shell. bash puts what it is offered into the line as it is, and reads
#: offers line by line: `orders;reboot`, or a name that holds a newline, would be typed in by whoever made it.
PLAIN = re.compile(r"\w[\w:./@%+=,-]*")
#: Keys that a SCAN looks at for one answer.
BATCH = 1000


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of locks that are held now, and begin like that."""
    config = ctx.params.get("config")
    settings = Settings(ctx.params.get("masters"), Path(config) if config else None)
    try:
        return sorted(_held(settings, incomplete))
    except Exception:
        return []  # no masters, no answer, a broken file: a prompt is no place to say so


def complete_command(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Programs of PATH for the first word, files for the others."""
    files = [CompletionItem(incomplete, type="file")]
    if ctx.params.get("command") or os.sep in incomplete:
        return files
    found = set(_programs(incomplete))
    return [CompletionItem(name) for name in sorted(found)] or files


def _held(settings: Settings, beginning: str) -> set[str]:
    until = time.monotonic() + PATIENCE_S
    found: set[str] = set()
    with settings.client() as client:
        for endpoint in client._endpoints:
            left = until - time.monotonic()
            if left <= 0:
                break
            connection = endpoint.connection(min(MASTER_S, left))
            try:
                # A lock is held on a quorum: the first master that answers may lack some, two hardly.
                found.update(_on(connection, beginning, until))
                if found:
                    break
            except Exception:
                continue
            finally:
                connection.disconnect()
    return found


def _on(connection: Any, beginning: str, until: float) -> set[str]:
    pattern = "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in beginning) + "*"
    found: set[str] = set()
    cursor = "0"
    while len(found) < MOST and time.monotonic() < until:
        (reply,) = _ask(connection, [("SCAN", cursor, "MATCH", pattern, "COUNT", str(BATCH), "TYPE", "hash")])
        cursor = reply[0].decode()
        keys = [key for key in reply[1] if not key.startswith(b"rlock:")]
        # A lock's hash has one field, its owner; other people's hashes mostly have more.
        sizes = _ask(connection, [("HLEN", key) for key in keys])
        keys = [key for key, size in zip(keys, sizes, strict=True) if size == 1]
        for key, entry in zip(keys, _ask(connection, [("HGETALL", key) for key in keys]), strict=True):
            name = replies.text(key)
            holder, count = (*entry, b"", b"")[:2]  # nothing, where it was released in between
            if PLAIN.fullmatch(name) and is_lock(replies.text(holder), whole(count)):
                found.add(name)
        if cursor == "0":
            break
    return found


def _ask(connection: Any, commands: list[tuple[str | bytes, ...]]) -> list[Any]:
    for command in commands:
        connection.send_command(*command)
    return [connection.read_response() for _ in commands]


def _programs(beginning: str) -> Iterator[str]:
    if not beginning:
        return  # thousands of them say nothing
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        try:
            with os.scandir(folder or ".") as entries:
                names = [entry.name for entry in entries if entry.name.startswith(beginning)]
        except OSError:
            continue
        yield from (name for name in names if os.access(os.path.join(folder, name), os.X_OK))
