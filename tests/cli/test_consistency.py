"""The commands are of one piece: the same option is the same everywhere, and each tells its exit status."""

from __future__ import annotations

import re

import click
import pytest

from rlock.cli import exits
from rlock.cli.main import COMMANDS, cli

from .shell import inside

CONTEXT = click.Context(cli, info_name="rlock")
VERBS = {name: command for name in COMMANDS if (command := cli.get_command(CONTEXT, name)) is not None}


@pytest.mark.parametrize("verb", VERBS)
def test_each_help_text_tells_the_exit_status_in_codes_of_the_table(verb: str) -> None:
    text = f"{VERBS[verb].help}\n{VERBS[verb].epilog or ''}"
    told = re.search(r"Exit status: (.*)", " ".join(text.split()))
    assert told is not None
    codes = {int(code) for code in re.findall(r"(?:^|[;,] |or )(\d+)  ?[a-zA-Z]", told[1])}
    assert codes <= {0, 130, *exits.TABLE}


@pytest.mark.parametrize("value", ["nan", "-inf"])
@pytest.mark.parametrize(
    "words", [("list", "--scan"), ("bench", "--seconds"), ("run", "-w"), ("run", "--grace")], ids=" ".join
)
def test_what_is_no_number_of_seconds_is_refused(words: tuple[str, ...], value: str) -> None:
    rest = ("x", "true") if words[0] == "run" else ()
    found = inside(*words, value, *rest, masters=["redis://127.0.0.1:1"])
    assert found.code == exits.USAGE
    assert found.err.startswith("rlock: ")
    assert found.err.count("\n") == 1
