"""Bad input to every command that there is: one line on stderr, a code of the table, no traceback.

The commands are those of `main.COMMANDS`; what each takes is asked of itself, so a new one is tested, too.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from rlock.cli import exits
from rlock.cli.main import COMMANDS, cli

from ..fixtures import FreshMasters
from .shell import RLOCK, done, environment, inside, refused

ROOT = click.Context(cli, info_name="rlock")
NOWHERE = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"]
#: What else a command is to be called with, so that it does not ask, wait or take its time.
WORDS = {
    "run": ["-n"],
    "bench": ["--seconds", "1", "--yes"],
    "evict": ["--yes"],
    "watch": ["--once"],
    "completion": ["bash"],
}


def command(name: str) -> click.Command:
    found = cli.get_command(ROOT, name)
    assert found is not None
    return found


def arguments(name: str) -> list[str]:
    return [str(param.name) for param in command(name).params if isinstance(param, click.Argument)]


def words(name: str, lock: str | bytes = "job") -> list[str | bytes]:
    """A call that is right as far as its words go."""
    known = {option for param in command(name).params for option in param.opts}
    more = [word for word in WORDS.get(name, []) if not word.startswith("--") or word in known]
    given: list[str | bytes] = [name, *more]
    if "name" in arguments(name):
        given += [lock]
    return [*given, "true"] if name == "run" else given


ON_MASTERS = [name for name in COMMANDS if any(param.name == "config" for param in command(name).params)]
ON_A_LOCK = [name for name in COMMANDS if "name" in arguments(name)]
#: They stay until they are ended.
STAY = [name for name in COMMANDS if name in ("watch", "dashboard", "up", "demo")]
QUICK = [name for name in ON_MASTERS if name not in STAY]


def documented(code: int) -> bool:
    return code == 0 or code in exits.TABLE or 128 < code < 128 + 65


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_text_tells_the_exit_status_in_codes_of_the_table(name: str) -> None:
    text = f"{command(name).help}\n{command(name).epilog or ''}"
    told = re.search(r"Exit status: (.*)", " ".join(text.split()))
    assert told is not None
    codes = {int(code) for code in re.findall(r"(?:^|[;,] |or )(\d+)  ?[a-zA-Z]", told[1])}
    assert codes <= {0, 130, *exits.TABLE}


@pytest.mark.parametrize("option", ["-w", "--grace"])
@pytest.mark.parametrize("value", ["nan", "-inf"])
def test_what_is_no_number_of_seconds_is_refused(option: str, value: str) -> None:
    refused(inside("run", option, value, "job", "true", masters=NOWHERE), 64)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_and_a_word_too_many_are_64(name: str) -> None:
    refused(inside(name, "--no-such-option"), 64, "--no-such-option", f"`rlock {name} --help`")
    if -1 not in [param.nargs for param in command(name).params]:
        refused(inside(*words(name), *["word"] * 9), 64, "word")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["runn", "job", "true"], "did you mean 'run'?"),
        (["--zzz"], "--zzz"),
        ([b"\xff\xfe"], "No such command"),
        ([""], "No such command ''"),
    ],
    ids=str,
)
def test_an_unknown_command_gets_a_suggestion(given: list[str | bytes], told: str) -> None:
    refused(inside(*given), 64, told)


@pytest.mark.parametrize("name", ON_MASTERS)
def test_no_masters_bad_urls_and_broken_files_are_told_in_one_line(name: str, tmp_path: Path) -> None:
    refused(inside(*words(name)), 64, "RLOCK_MASTERS is not set")
    for url in ("http://user:hunter2@x", "redis://:hunter2/swordfish@x", "redis://u:12?hunter2=3@x"):
        found = inside(*words(name), masters=[url])
        refused(found, 64, "redis://")
        assert not re.search("hunter2|swordfish", found.err)
    twice = ["redis://127.0.0.1:1", "redis://127.0.0.1:1/2"]
    refused(inside(*words(name), masters=twice), 64, "twice")
    refused(inside(*words(name), masters=NOWHERE, RLOCK_TTL="soon"), 64, "RLOCK_TTL")
    broken = tmp_path / "config.toml"
    broken.write_text("ttl = 'x'\n")
    refused(inside(*words(name), RLOCK_CONFIG=str(broken)), 78, str(broken), "ttl must be a finite number")


@pytest.mark.parametrize("name", ON_A_LOCK)
@pytest.mark.parametrize(
    ("lock", "told"),
    [
        ("", "must not be empty"),
        ("x" * 1025, "1024 bytes"),
        (b"caf\xe9", "UTF-8"),
        ("rlock:x", "rename 'rlock:x'"),
    ],
    ids=["empty", "long", "no UTF-8", "ours"],
)
def test_a_name_that_no_lock_can_have_is_64(name: str, lock: str | bytes, told: str) -> None:
    refused(inside(*words(name, lock), masters=NOWHERE), 64, told)


@pytest.mark.parametrize("name", QUICK)
def test_masters_out_of_reach_and_wrong_passwords_end_in_a_documented_code(
    name: str, fresh_masters: FreshMasters
) -> None:
    found = inside(*words(name), masters=NOWHERE)
    assert documented(found.code)
    assert found.code != 0 or name == "config", "nothing can be well"
    assert "Errno" not in found.err
    locked = fresh_masters(1, password="right").urls[0]
    for url in (re.sub(":[^:@]+@", ":hunter2@", locked), re.sub("//.*@", "//", locked)):
        found = inside(*words(name), masters=[url])
        assert documented(found.code)
        assert found.code != 0 or name == "config"
        assert "hunter2" not in found.out + found.err


@pytest.mark.parametrize("given", [["evict", "job"], ["watch"]], ids=" ".join)
def test_a_command_that_needs_a_terminal_says_so_when_stdin_is_closed(given: list[str]) -> None:
    found = done(["sh", "-c", '"$@" <&-', "sh", *RLOCK, *given], env=environment(NOWHERE, TERM="xterm"))
    refused(found, 64, "needs a terminal" if given == ["watch"] else "--yes")
