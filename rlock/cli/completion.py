"""Words that a shell offers on TAB: names of locks that are held. Nothing on failure."""

from __future__ import annotations

import re
from contextlib import closing
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
            closing(Scan(client, pattern, MOST, waiters=1)) as scan,
        ):
            return [lock.name for lock in scan.look().locks if PLAIN.fullmatch(lock.name)]
    except Exception:
        return []  # no masters, no answer, a broken file: a prompt is no place to say so


def complete_command(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files: COMMAND and its arguments."""
    return [CompletionItem(incomplete, type="file")]
