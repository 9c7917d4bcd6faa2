"""`rlock help [COMMAND]`: the manual."""

from __future__ import annotations

import shutil
import sys

import click

from ..manual import EXIT_CODES, WIDTH, as_roff, as_text, exit_codes, page_of


def _topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    root = ctx.find_root()
    group = root.command
    names = group.list_commands(root) if isinstance(group, click.Group) else []
    return [name for name in (*names, EXIT_CODES) if name.startswith(incomplete)]


@click.command()
@click.argument("topic", metavar="[COMMAND]", required=False, shell_complete=_topics)
@click.option("--man", is_flag=True, help="Print the source of the page, for man(1).")
@click.pass_context
def help(  # noqa: A001 - the word that is typed
    ctx: click.Context, topic: str | None, *, man: bool
) -> None:
    """Show the manual of a command, of the program, or of the exit codes; on a terminal in the pager.

    \b
    Examples:
      rlock help run
      rlock help exit-codes
      rlock help --man run | man -l -

    Exit status: 0; 64 if there is no such page.
    """
    root = ctx.find_root()
    if topic == EXIT_CODES:
        page = exit_codes()
    elif topic is None:
        page = page_of(root)
    else:
        group = root.command
        assert isinstance(group, click.Group)
        _, command, _ = group.resolve_command(root, [topic])
        assert command is not None
        page = page_of(click.Context(command, info_name=topic, parent=root))
    if man:
        click.echo(as_roff(page), nl=False)
        return
    text = as_text(page, min(WIDTH, shutil.get_terminal_size().columns))
    if sys.stdout.isatty() and sys.stdin.isatty():
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)
