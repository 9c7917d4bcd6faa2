"""`rlock completion`: the words that a shell is offered, and `rlock help`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click
import pytest

import rlock as library
from rlock.cli import exits
from rlock.cli.commands.status import status
from rlock.cli.completion import complete_name
from rlock.cli.main import COMMANDS

from ..fixtures import FreshMasters
from ..servers import Fleet, raw
from .shell import done, environment, inside


def offered(words: str, masters: Sequence[str] = (), shell: str = "bash") -> set[str]:
    """What the program tells the script of a shell about the last of these words."""
    given = words.split(" ")
    extra = {"_RLOCK_COMPLETE": f"{shell}_complete", "COMP_WORDS": f"rlock {words}"}
    extra["COMP_CWORD"] = given[-1] if shell == "fish" else str(len(given))
    out = done([sys.executable, "-m", "rlock"], env=environment(masters, **extra)).out
    return {row.removeprefix("plain,") for row in out.splitlines()} - {"plain", "_", ""}


def test_commands_options_choices_programs_and_locks_are_completed(masters3: Fleet) -> None:
    assert "_RLOCK_COMPLETE=bash_complete" in inside("completion", "bash").out
    assert offered("") == set(COMMANDS)
    assert "--retry-delay" in offered("run --retr")
    assert offered("run --on-lost ") == {"warn", "term", "kill"}
    with library.Client(masters3.urls) as client, client.lock("orders:42"), client.lock("other"):
        raw(masters3[0].url).hset("orders:no-lock", mapping={"a": "1", "b": "2"})
        assert offered("status o", masters3.urls) == {"orders:42", "other"}
        assert offered("run --fair ot", masters3.urls) == {"other"}
        assert offered("status [o]*", masters3.urls) == set()


@pytest.mark.timing
def test_masters_that_do_not_answer_keep_the_prompt_for_a_second_at_most(
    fresh_masters: FreshMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fresh_masters(5)
    fleet.pause()
    monkeypatch.setenv("RLOCK_MASTERS", ",".join(fleet.urls))
    parameter = status.params[0]
    began = time.monotonic()
    assert complete_name(click.Context(status), parameter, "o") == []
    assert time.monotonic() - began < 2.0


def test_a_name_that_means_something_to_a_shell_is_not_offered(masters3: Fleet) -> None:
    rude = ("or;reboot", "or$(id)", "or`id`", "or'x", "or x", "or\nplain,rm", "or\x1b[2J", "or|x", "or*")
    for url in masters3.urls:
        for name in (*rude, "orders:42/a.b@c", "or-ü"):
            raw(url).hset(name, f"h/1/m:{'0' * 32}", 1)
    for shell in ("bash", "zsh", "fish"):
        assert offered("status or", masters3.urls, shell) == {"orders:42/a.b@c", "or-ü"}, shell


def test_help_shows_the_exit_codes() -> None:
    found = inside("help", "exit-codes")
    assert found.code == 0
    for code, meaning in exits.rows():
        assert f"{code} {meaning}" in " ".join(found.out.split())
    assert inside("help", "nothing").code == exits.USAGE
