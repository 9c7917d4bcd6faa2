"""The tables of docs/cli.md and docs/doctor.md: settings, exit codes, commands, checks."""

from __future__ import annotations

import click

from rlock.cli import exits
from rlock.cli.doctor.findings import CHECKS
from rlock.cli.main import cli
from rlock.cli.settings import KEYS


def settings() -> str:
    """The settings, in the file and in the environment."""
    rows = (f"| `{key}` | `RLOCK_{key.upper()}` | {meaning} |" for key, meaning in KEYS.items())
    return "\n".join(["| in the file | environment | |", "|---|---|---|", *rows, ""])


def exit_codes() -> str:
    """The exit codes of all commands."""
    rows = (f"| {code} | {meaning} |" for code, meaning in exits.rows())
    first = "| 0 | all is well; run: COMMAND's own status |"
    return "\n".join(["| code | |", "|---|---|", first, *rows, ""])


def commands() -> str:
    """Every command in a sentence; its options are in its help text."""
    root = click.Context(cli, info_name="rlock", **cli.context_settings)
    rows = []
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        rows.append(f"| `rlock {name}` | {command.get_short_help_str(200)} |")
    return "\n".join(["| | |", "|---|---|", *rows, ""])


def checks() -> str:
    """The checks of `rlock doctor`."""
    rows = (f"| `{c.name}` | {c.worst.value} | {c.meaning} |" for c in CHECKS.values())
    return "\n".join(["| check | at worst | what should be so |", "|---|---|---|", *rows, ""])
