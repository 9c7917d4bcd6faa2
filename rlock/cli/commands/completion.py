"""`rlock completion SHELL`: the script that has a shell complete our words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes rlock's words in SHELL: bash (4.4 or newer), zsh or fish.

    \b
    Where it goes:
      rlock completion bash > ~/.local/share/bash-completion/completions/rlock
      rlock completion zsh > ~/.zfunc/_rlock       with ~/.zfunc in fpath, before compinit
      rlock completion fish > ~/.config/fish/completions/rlock.fish
      eval "$(rlock completion bash)"              for this shell only

    The shell completes commands, options, files, and the names of locks that are held now. For the names
    rlock asks the masters, for about half a second at most, and is silent when they do not answer.

    Exit status: 0; 64 for a shell that it does not know.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "rlock", "_RLOCK_COMPLETE").source(), nl=False)
