"""Manual pages, made of the commands themselves: as text for a terminal, or as roff for man(1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from inspect import cleandoc

import click

from .. import __version__
from . import exits
from .settings import KEYS

#: Who reads a line needs no more than this, however wide the terminal is.
WIDTH = 90

EXIT_CODES = "exit-codes"
_FILES = (
    ("~/.config/rlock/config.toml", "the user's settings ($XDG_CONFIG_HOME, if that is set)"),
    ("/etc/rlock/config.toml", "the machine's settings, read if the user has none"),
)
_VARIABLES = (
    ("RLOCK_CONFIG", "the settings file to read; empty: none"),
    ("NO_COLOR", "set: no colours, on a terminal either"),
)


@dataclass(frozen=True)
class Text:
    """A paragraph; ``verbatim``: its lines are kept as they are."""

    text: str
    verbatim: bool = False


@dataclass(frozen=True)
class Terms:
    """Terms and what they mean."""

    rows: Sequence[tuple[str, str]]


@dataclass
class Page:
    """A manual page: its sections in order."""

    name: str
    brief: str
    sections: dict[str, list[Text | Terms]] = field(default_factory=dict)

    def add(self, section: str, *parts: Text | Terms) -> None:
        """Put something at the end of a section."""
        self.sections.setdefault(section, []).extend(parts)


def page_of(context: click.Context) -> Page:
    """The page of a command (or of the program, for the context of the group)."""
    command = context.command
    title = context.command_path.replace(" ", "-")
    page = Page(title, command.get_short_help_str(200).rstrip("."))
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    page.add("SYNOPSIS", Text(usage, verbatim=True))
    for part in _paragraphs(command.help or ""):
        page.add(_section(part), part)
    if isinstance(command, click.Group):
        page.add("COMMANDS", Terms(list(_verbs(command, context))))
    records = [
        param.get_help_record(context)
        for param in command.get_params(context)
        if isinstance(param, click.Option)
    ]
    options = [record for record in records if record is not None]
    page.add("OPTIONS", Terms(options))
    takes_settings = any(param.name == "config" for param in command.params)
    if command.name == "run" or command is context.find_root().command or "EXIT STATUS" not in page.sections:
        page.add("EXIT STATUS", Terms([("0", "all is well; run: COMMAND's own status"), *exits.rows()]))
    if takes_settings or isinstance(command, click.Group):
        page.add("ENVIRONMENT", Terms([*((f"RLOCK_{k.upper()}", v) for k, v in KEYS.items()), *_VARIABLES]))
        page.add("FILES", Terms(_FILES))
    root = context.find_root()
    others = [name for name in _names(root) if name != command.name]
    also = ["flock(1)"] if command.name == "run" else []
    if context is not root:
        page.add("SEE ALSO", Text(", ".join(["rlock(1)", *(f"rlock-{name}(1)" for name in others), *also])))
    order = ("SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES")
    page.sections = {
        name: page.sections[name] for name in (*order, "EXAMPLES", "SEE ALSO") if name in page.sections
    }
    return page


def exit_codes() -> Page:
    """The page of the exit codes."""
    page = Page("rlock-exit-codes", "the exit codes of all commands")
    page.add("DESCRIPTION", Text("The numbers are those of sysexits.h where it has one for the case."))
    page.add("EXIT STATUS", Terms([("0", "all is well; run: COMMAND's own status"), *exits.rows()]))
    page.add("SEE ALSO", Text("rlock(1), rlock-run(1)"))
    return page


def as_text(page: Page, width: int = WIDTH) -> str:
    """For a terminal."""
    formatter = click.HelpFormatter(width=width, max_width=width)
    parts: dict[str, list[Text | Terms]] = {"NAME": [Text(f"{page.name} - {page.brief}")], **page.sections}
    for section, items in parts.items():
        formatter.write_heading(section)
        formatter.indent()
        for place, item in enumerate(items):
            if place:
                formatter.write_paragraph()
            if isinstance(item, Terms):
                formatter.write_dl(list(item.rows), col_max=34)
            elif item.verbatim:
                for line in item.text.splitlines():
                    formatter.write(f"{' ' * formatter.current_indent}{line}".rstrip() + "\n")
            else:
                formatter.write_text(item.text)
        formatter.dedent()
        formatter.write_paragraph()
    # click's headings end with a colon; those of manuals do not.
    return re.sub(r"^([A-Z ]+):$", r"\1", formatter.getvalue(), flags=re.MULTILINE).rstrip() + "\n"


def as_roff(page: Page) -> str:
    """For man(1): `rlock help --man run | man -l -`."""
    lines = [f'.TH "{page.name.upper()}" "1" "" "rlock {__version__}" "User Commands"', ".nh", ".ad l"]
    lines += [".SH NAME", f"{_roff(page.name)} \\- {_roff(page.brief)}"]
    for section, items in page.sections.items():
        lines.append(f".SH {section}")
        for place, item in enumerate(items):
            if isinstance(item, Terms):
                for term, meaning in item.rows:
                    lines += [".TP", f".B {_roff(term)}", _roff(meaning) or "\\&"]
                continue
            if place:
                lines.append(".PP")
            if item.verbatim:
                lines += [".nf", *(_roff(line) or "\\&" for line in item.text.splitlines()), ".fi"]
            else:
                lines.append(_roff(item.text))
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def _paragraphs(help_text: str) -> Iterator[Text | Terms]:
    for block in re.split(r"\n\s*\n", cleandoc(help_text.partition("\f")[0])):
        if not block.strip():
            continue
        if block.startswith("\b"):
            text = block.lstrip("\b\n")
            if text.startswith("Exit status"):
                yield _statuses(text)
            else:
                # The section has the heading.
                yield Text(cleandoc(text.removeprefix("Examples:\n")), verbatim=True)
        elif block.startswith("Exit status"):
            yield _statuses(block)
        else:
            yield Text(" ".join(block.split()))


def _statuses(text: str) -> Terms | Text:
    """An "Exit status: 0 all is well; 69 ..." of a docstring, as a table if it is of that form."""
    line = " ".join(text.split())
    rows = re.findall(r"(\d+) ([^;,]+(?:, (?!\d)[^;,]+)*)", line.removeprefix("Exit status:"))
    return Terms(rows) if line.startswith("Exit status:") and rows else Text(line)


def _section(part: Text | Terms) -> str:
    if isinstance(part, Terms) or part.text.startswith("Exit status"):
        return "EXIT STATUS"
    if part.verbatim and any(line.strip().startswith("rlock ") for line in part.text.splitlines()):
        return "EXAMPLES"
    return "DESCRIPTION"


def _names(root: click.Context) -> list[str]:
    command = root.command
    return command.list_commands(root) if isinstance(command, click.Group) else []


def _verbs(group: click.Group, context: click.Context) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(context):
        verb = group.get_command(context, name)
        if verb is not None and not verb.hidden:
            yield name, verb.get_short_help_str(200)
