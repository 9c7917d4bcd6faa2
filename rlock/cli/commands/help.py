"""`rlock help [COMMAND]`: the help text of a command, or the table of exit codes."""

from __future__ import annotations

import click

from .. import exits

EXIT_CODES = "exit-codes"


def _topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    group = ctx.find_root().command
    assert isinstance(group, click.Group)
    return [each for each in (*group.list_commands(ctx), EXIT_CODES) if each.startswith(incomplete)]


@click.command()
@click.argument("topic", metavar="[COMMAND]", required=False, shell_complete=_topics)
@click.pass_context
def help(ctx: click.Context, topic: str | None) -> None:  # noqa: A001 - the word that is typed
    """Show the help text of a command, of rlock itself, or the exit codes of all commands.

    \b
    Examples:
      rlock help run
      rlock help exit-codes

    Exit status: 0; 64 if there is no such command.
    """
    root = ctx.find_root()
    group = root.command
    assert isinstance(group, click.Group)
    if topic is None:
        click.echo(root.get_help())
    elif topic == EXIT_CODES:
        formatter = click.HelpFormatter(max_width=90)
        formatter.write_dl([("0", "all is well; run: COMMAND's own status"), *exits.rows()])
        click.echo(formatter.getvalue(), nl=False)
    else:
        _, command, _ = group.resolve_command(root, [topic])
        assert command is not None
        click.echo(command.get_help(click.Context(command, info_name=topic, parent=root)))
