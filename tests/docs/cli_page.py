"""The tables of docs/cli.md, made of the code; ``python -m tests.docs.cli_page`` renews them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from rlock.cli import exits
from rlock.cli.main import cli
from rlock.cli.settings import KEYS

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def settings() -> str:
    rows = (f"| `{key}` | `RLOCK_{key.upper()}` | {meaning} |" for key, meaning in KEYS.items())
    return "\n".join(["| in the file | environment | |", "|---|---|---|", *rows])


def exit_codes() -> str:
    rows = (f"| {code} | {meaning} |" for code, meaning in exits.rows())
    first = "| 0 | all is well; run: COMMAND's own status |"
    return "\n".join(["| code | |", "|---|---|", first, *rows])


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
    return "\n\n".join(parts)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for param in command.get_params(context):
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is not None:
            term, meaning = (" ".join(text.replace("|", "\\|").split()) for text in record)
            yield f"| `{term}` | {meaning} |"


GENERATED = {"settings": settings, "exit codes": exit_codes, "commands": commands}


def renewed(page: str) -> str:
    """The text of the page with every generated part as the code has it now."""
    for title, made in GENERATED.items():
        pattern = rf"(<!-- generated: {title} -->\n).*?(<!-- end -->)"
        found = re.findall(pattern, page, re.DOTALL)
        if len(found) != 1:
            raise ValueError(f"the page has {len(found)} parts called {title!r}")
        first, last = found[0]
        begin = page.index(first) + len(first)
        page = page[:begin] + made() + "\n" + page[page.index(last, begin) :]
    return page


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
