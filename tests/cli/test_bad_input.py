"""Bad input to every command that there is: one line on stderr, a code of the table, no traceback.

The commands are those of `main.COMMANDS`; what each takes is asked of itself, so a new one is tested, too.
And completion, `rlock help`, and the settings: flags, the environment, the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

import rlock as library
from rlock.cli import exits
from rlock.cli.main import COMMANDS, cli
from rlock.cli.settings import KEYS, file_of

from ..docs.pages import block
from ..fixtures import FreshMasters
from ..servers import Fleet, raw, tell
from .shell import NOWHERE, RLOCK, done, environment, inside, refused, rlock

ROOT = click.Context(cli, info_name="rlock")
#: What else a command is to be called with, so that it does not ask, wait or take its time.
WORDS = {
    "run": ["-n"],
    "hold": ["-n"],
    "acquire": ["-n", "--ttl", "5"],
    "renew": ["handle"],
    "release": ["handle"],
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
    given: list[str | bytes] = [name, *WORDS.get(name, [])]
    if "name" in arguments(name):
        given += [lock]
    return [*given, "true"] if name == "run" else given


#: `hold` reads its options as `run` does, and each call of it is a process.
ASKED = [name for name in COMMANDS if name != "hold"]
ON_MASTERS = [name for name in ASKED if any(param.name == "config" for param in command(name).params)]
ON_A_LOCK = [name for name in ASKED if "name" in arguments(name)]
#: They stay until they are ended.
STAY = [name for name in COMMANDS if name in ("watch", "exporter", "up", "demo")]
QUICK = [name for name in ON_MASTERS if name not in STAY]


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_and_a_word_too_many_are_64(name: str) -> None:
    refused(inside(name, "--no-such-option"), 64, "--no-such-option", f"`rlock {name} --help`")
    if -1 not in [param.nargs for param in command(name).params]:
        refused(inside(*words(name), *["word"] * 9), 64, "word")


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


@pytest.mark.parametrize("given", [["list"], ["watch", "--json", "--once"], ["exporter"]])
def test_a_pattern_that_no_name_can_match_is_not_blamed_on_the_masters(given: list[str | bytes]) -> None:
    refused(inside(*given, b"caf\xe9", masters=NOWHERE), 64, "the pattern", "UTF-8")


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
def test_masters_out_of_reach_and_wrong_passwords_have_codes(name: str, fresh_masters: FreshMasters) -> None:
    found = inside(*words(name), masters=NOWHERE)
    assert found.code in {0, *exits.TABLE}
    assert found.code != 0 or name == "config", "nothing can be well"
    assert "Errno" not in found.err
    locked = fresh_masters(1, password="right").urls[0]
    for url in (re.sub(":[^:@]+@", ":hunter2@", locked), re.sub("//.*@", "//", locked)):
        found = inside(*words(name), masters=[url])
        assert found.code == (0 if name == "config" else 64)
        assert "hunter2" not in found.out + found.err


@pytest.mark.parametrize("given", [["evict", "job"], ["watch"]], ids=" ".join)
def test_a_command_that_needs_a_terminal_says_so_when_stdin_is_closed(given: list[str]) -> None:
    found = done(["sh", "-c", '"$@" <&-', "sh", *RLOCK, *given], env=environment(NOWHERE, TERM="xterm"))
    refused(found, 64, "needs a terminal" if given == ["watch"] else "--yes")


def offered(words: str, masters: Sequence[str] = (), shell: str = "bash") -> set[str]:
    """What the program tells the script of a shell about the last of these words."""
    given = words.split(" ")
    extra = {"_RLOCK_COMPLETE": f"{shell}_complete", "COMP_WORDS": f"rlock {words}"}
    extra["COMP_CWORD"] = given[-1] if shell == "fish" else str(len(given))
    out = done(RLOCK, env=environment(masters, **extra)).out
    return {row.removeprefix("plain,") for row in out.splitlines()} - {"plain", "_", ""}


def test_commands_options_choices_programs_and_locks_are_completed(masters3: Fleet) -> None:
    assert "_RLOCK_COMPLETE=bash_complete" in inside("completion", "bash").out
    assert offered("") == set(COMMANDS)
    assert offered("help st") == {"status"}
    assert "--retry-delay" in offered("run --retr")
    assert offered("run --on-lost ") == {"warn", "term", "kill"}
    with library.Client(masters3.urls) as client, client.lock("orders:42"), client.lock("other"):
        raw(masters3[0].url).hset("orders:no-lock", mapping={"a": "1", "b": "2"})
        assert offered("status o", masters3.urls) == {"orders:42", "other"}
        assert offered("run --fair ot", masters3.urls) == {"other"}
        assert offered("status [o]*", masters3.urls) == set()


def test_a_name_that_means_something_to_a_shell_is_not_offered(masters3: Fleet) -> None:
    rude = ("or;reboot", "or$(id)", "or`id`", "or'x", "or x", "or\nplain,rm", "or\x1b[2J", "or|x", "or*")
    for name in (*rude, "orders:42/a.b@c", "or-ü"):
        tell(masters3.urls, "HSET", name, f"h/1/m:{'0' * 32}", 1)
    for shell in ("bash", "zsh", "fish"):
        assert offered("status or", masters3.urls, shell) == {"orders:42/a.b@c", "or-ü"}, shell


def test_help_shows_the_exit_codes() -> None:
    found = inside("help", "exit-codes")
    assert found.code == 0
    for code, meaning in exits.rows():
        assert f"{code} {meaning}" in " ".join(found.out.split())
    assert inside("help", "nothing").code == exits.USAGE


SECRET = "hunter2"


def in_force(*words: str, **extra: str) -> dict[str, tuple[object, str]]:
    found = inside("config", "--json", *words, **extra)
    assert found.code == 0, found.err
    (told,) = map(json.loads, found.out.splitlines())
    return {key: (row["value"], row["source"]) for key, row in told["settings"].items()}


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    path = str(written(tmp_path, 'masters = ["redis://file"]\nttl = 3\nmax_ttl = 30\nrequest_timeout = 0.2'))
    found = in_force("--config", path, RLOCK_TTL="4", RLOCK_REQUEST_TIMEOUT=" ")
    assert set(found) == set(KEYS)
    assert found["masters"] == (["redis://file:6379"], path)
    assert found["ttl"] == (4.0, "RLOCK_TTL")
    assert found["max_ttl"] == (30.0, path)
    assert found["request_timeout"] == (0.2, path), "an empty variable says nothing"
    assert found["restart_guard"][1] == "default"
    found = in_force("--config", path, RLOCK_MASTERS="env:6400")
    assert found["masters"] == (["redis://env:6400"], "RLOCK_MASTERS")
    found = in_force("--config", path, "--masters", "redis://flag", RLOCK_MASTERS="redis://env")
    assert found["masters"] == (["redis://flag:6379"], "--masters")


def test_the_settings_file_of_the_page_is_read_without_its_password(tmp_path: Path) -> None:
    path = str(written(tmp_path, block("cli.md", "config.toml")))
    masters, source = in_force("--config", path)["masters"]
    assert isinstance(masters, list)
    assert (masters[-1], source) == ("rediss://10.0.0.3:6380", path)
    assert "secret" in block("cli.md", "config.toml")
    assert "secret" not in str(masters)


def test_the_users_file_goes_before_the_machines_and_an_empty_variable_means_none(tmp_path: Path) -> None:
    (tmp_path / ".config" / "rlock").mkdir(parents=True)
    users = written(tmp_path / ".config" / "rlock", "")
    assert file_of({"HOME": str(tmp_path)}) == users
    assert file_of({"HOME": "/nonexistent", "XDG_CONFIG_HOME": str(tmp_path / ".config")}) == users
    assert file_of({"HOME": str(tmp_path), "RLOCK_CONFIG": ""}) is None
    assert file_of({"HOME": str(tmp_path), "RLOCK_CONFIG": "/elsewhere"}) == Path("/elsewhere")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ttl = \n", "line 1"),
        ("tll = 3", "did you mean 'ttl'?"),
        ('ttl = "3"', "ttl must be a finite number of seconds above 0, not '3'"),
        ("restart_guard = -1", "of 0 or more, not -1"),
        ('interop = "jedis"', "interop must be \"redisson\", or be left out, not 'jedis'"),
        (f'masters = [["redis://:{SECRET}@a"]]', "masters must be a list of URLs"),
        (f"ttl = {'9' * 5000}", "a number too long"),
        (f"ttl = {'[' * 5000}", "a list is too deep"),
    ],
    ids=lambda value: value[:40],
)
def test_a_broken_file_is_78_and_one_line_that_names_it(text: str, told: str, tmp_path: Path) -> None:
    path = str(written(tmp_path, text))
    found = inside("config", "--config", path)
    refused(found, 78, path, told)
    assert SECRET not in found.err


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    refused(inside("config", "--config", str(tmp_path)), 78, "Is a directory")
    refused(inside("config", "--config", str(tmp_path / "none")), 78, "No such file")
    refused(rlock("run", "job", "true", RLOCK_CONFIG=str(tmp_path / "none")), 78, "No such file")
    refused(inside("config", "--config", "/dev/zero"), 78, "over 20 KB")
    os.mkfifo(tmp_path / "pipe")
    refused(rlock("config", "--config", str(tmp_path / "pipe")), 78, "a pipe")
    refused(inside("config", "--config", str(tmp_path / ("x" * 300))), 78, "too long")
    latin = tmp_path / "latin"
    latin.write_bytes(b"# \xe9\n")
    refused(inside("config", "--config", str(latin)), 78, "utf-8")


@pytest.mark.parametrize(("url", "mode"), [("redis://:{}@10.0.0.1", 0o644), ("redis://:{}/9@a", 0o640)])
def test_a_password_that_others_can_read_is_told_once(url: str, mode: int, tmp_path: Path) -> None:
    path = written(tmp_path, f'masters = ["redis://10.0.0.2", "{url.format(SECRET)}"]', mode)
    told = f"rlock: {path} holds a password, and others than its owner can read it: chmod 600 {path}\n"
    found = inside("config", "--config", str(path))
    assert found.err.startswith(told)
    assert found.code == (64 if "/9" in url else 0), "the warning is no error"
    assert SECRET not in found.out + found.err
    path.chmod(0o600)
    assert told not in inside("config", "--config", str(path)).err


def test_a_file_that_everybody_can_write_is_told_once(tmp_path: Path) -> None:
    path = written(tmp_path, 'masters = ["redis://10.0.0.2"]', 0o666)
    told = f"rlock: {path} names the masters, and everybody can write it: chmod o-w {path}\n"
    assert inside("config", "--config", str(path)).err == told
    assert inside("config", "--config", str(path)).err == ""
