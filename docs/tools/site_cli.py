"""The tables of docs/cli.md and docs/doctor.md: settings, exit codes, commands with their options, checks."""

from __future__ import annotations

from collections.abc import Iterator

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
    """Every command with its options."""
    root = click.Context(cli, info_name="rlock", **cli.context_settings)
    parts = []
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root)
        usage = " ".join(["rlock", name, *command.collect_usage_pieces(context)])
        rows = "\n".join(_options(command, context))
        parts.append(f"### `{usage}`\n\n{command.get_short_help_str(200)}\n\n| | |\n|---|---|\n{rows}")
    return "\n\n".join(parts) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for param in command.get_params(context):
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is not None:
            term, meaning = (" ".join(text.replace("|", "\\|").split()) for text in record)
            yield f"| `{term}` | {meaning} |"


def checks() -> str:
    """The checks of `rlock doctor`."""
    rows = (f"| [{c.name}](#{c.name}) | {c.worst.value} | {c.meaning} |" for c in CHECKS.values())
    return "\n".join(["| check | at worst | what should be so |", "|---|---|---|", *rows, ""])
