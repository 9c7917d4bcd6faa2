"""Words that a shell offers on TAB: names of locks that are held, and programs. Nothing on failure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from .settings import Settings

#: A person waits with a finger on the key: a master that does not answer may cost this much.
PATIENCE_S = 0.25
MOST = 100
#: Names that mean themselves in every shell. bash types an offered word into the line as it is: a user who
#: makes a lock called `orders;reboot` could otherwise type into the command line of another user.
PLAIN = re.compile(r"\w[\w:./@%+=,-]*")


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of locks that are held or waited for now, and begin so."""
    from .scan.look import Scan  # the other commands start sooner without it

    config = ctx.params.get("config")
    settings = Settings(ctx.params.get("masters"), Path(config) if config else None)
    pattern = "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in incomplete) + "*"
    try:
        with (
            settings.client(request_timeout=PATIENCE_S) as client,
            Scan(client, pattern, MOST, waiters=1) as scan,
        ):
            return [lock.name for lock in scan.look().locks if PLAIN.fullmatch(lock.name)]
    except Exception:
        return []  # no masters, no answer, a broken file: a prompt is no place to say so


def complete_command(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Programs of PATH for the first word, files for the others."""
    files = [CompletionItem(incomplete, type="file")]
    if ctx.params.get("command") or os.sep in incomplete:
        return files
    return [CompletionItem(name) for name in sorted(set(_programs(incomplete)))] or files


def _programs(beginning: str) -> Iterator[str]:
    if not beginning:
        return  # a list of thousands helps nobody
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        try:
            with os.scandir(folder or ".") as entries:
                names = [entry.name for entry in entries if entry.name.startswith(beginning)]
        except OSError:
            continue
        yield from (name for name in names if os.access(os.path.join(folder, name), os.X_OK))
