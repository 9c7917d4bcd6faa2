"""`rlock completion SHELL`: the script that teaches a shell our words."""

from __future__ import annotations

import os

import click
from click.shell_completion import BashComplete, get_completion_class, split_arg_string

VARIABLE = "_RLOCK_COMPLETE"

#: click's own takes bash's words, which bash has cut at every colon: orders:42 would never be completed.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n'
    local line="${COMP_LINE:0:$COMP_POINT}" response completion type value prefix=""
    local word="${line##*[[:space:]]}"
    # What bash takes for the word to be completed begins behind its last colon or equals sign.
    if [[ $word == *[:=]* && $COMP_WORDBREAKS == *:* ]]; then
        prefix="${word%%"${word##*[:=]}"}"
    fi
    response=$(env COMP_LINE="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null)
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("${value#"$prefix"}")
        fi
    done
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """bash, with names that hold colons."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one at it."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        if line[-1:].isspace() or not words:
            return words, ""
        return words[:-1], words[-1]

    @staticmethod
    def _check_version() -> None:
        """It is the reader's bash that counts, not the one on this machine's PATH."""


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

    Commands, options and files are completed, and the names of locks that are held now: the masters are
    asked for them, for half a second at the most, and nothing is said when they do not answer.

    Exit status: 0; 64 for a shell that it does not know.
    """
    kind = Bash if shell == "bash" else get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "rlock", VARIABLE).source(), nl=False)
