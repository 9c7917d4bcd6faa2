"""The settings that the commands share: flags, else the environment, else a small TOML file."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import OptionsError
from ..rules.options import check_seconds, shown
from ..rules.timing import guard_time
from . import exits
from .output import complain

if TYPE_CHECKING:
    from ..client import Client

F = TypeVar("F", bound=Callable[..., Any])


class ConfigError(OptionsError):
    """The settings file cannot be used."""

    exit_status = exits.CONFIG


#: What the file may hold; each is the name of an environment variable, too: RLOCK_TTL for ttl.
KEYS = {
    "masters": "URLs of the masters, or host:port; the same for all who share a lock",
    "ttl": "length of a lease in seconds; it is renewed while the lock is held",
    "max_ttl": "the longest ttl of any client, in seconds; one value for the whole fleet",
    "request_timeout": "seconds to wait for one master",
    "restart_guard": "seconds without a vote for a master that restarted; 0: no guard",
    "interop": '"redisson": locks are shared with Redisson, the same for all who share a lock',
}
#: Variables that mean something: settings, and those that `rlock run` gives to its command.
_KNOWN = [
    *(f"RLOCK_{key.upper()}" for key in (*KEYS, "config")),
    *("RLOCK_NAME", "RLOCK_OWNER", "RLOCK_FENCING_TOKEN", "RLOCK_PERMIT"),
]
#: Nobody has more settings than this; who names /dev/zero gets an answer. A key with n dots takes n^2 steps.
MOST_BYTES = 20_000
#: Files of which it has been said that others can read their passwords, or write them.
_told: set[Path] = set()


@dataclass(frozen=True)
class Setting:
    """One setting that is in force, and where it comes from."""

    setting: str
    value: Any
    source: str  # "--masters", "RLOCK_TTL", the file's path, or "default"


class Settings:
    """Where the masters are, and the times; what was not given is looked up when it is needed."""

    def __init__(self, masters: str | None = None, config: Path | None = None) -> None:
        self._masters = masters
        self._config = config

    def environ(self) -> dict[str, str]:
        """The environment, with what the flags and the file say of our variables."""
        path = self.file
        environ = dict(os.environ)
        for variable in sorted(each for each in environ if each.startswith("RLOCK_")):
            # Other programs may have variables with this prefix: only a likely slip is told.
            if variable not in _KNOWN and (meant := _meant(variable, _KNOWN, 0.8)):
                complain(f"{variable} is no setting, and changes nothing{meant}")
        # An empty variable says nothing, as for the library.
        given = {_variable(key) for key in KEYS if environ.get(_variable(key), "").strip()}
        if path is not None:
            environ.update({key: value for key, value in read(path).items() if key not in given})
        if self._masters is not None:
            if not self._masters.strip(", "):
                raise OptionsError("--masters is empty: give at least one URL, such as redis://localhost")
            environ["RLOCK_MASTERS"] = self._masters
        return environ

    @property
    def file(self) -> Path | None:
        """The settings file that is read."""
        return self._config or file_of(os.environ)

    def client(self, **options: Any) -> Client:
        """A client; options that are None are left to the settings."""
        from ..client import Client  # `rlock --version` starts sooner without

        given = {key: value for key, value in options.items() if value is not None}
        return Client.from_env(self.environ(), **given)

    def in_force(self) -> Iterator[Setting]:
        """Each setting with its source. Raises `OptionsError` when they cannot work together."""
        path = self.file
        in_file = {} if path is None else read(path)
        with self.client() as client:
            options = client._options
            values = {
                "masters": client.masters,  # without users and passwords
                "ttl": options.ttl,
                "max_ttl": options.max_ttl,
                "request_timeout": options.lease(None).request_timeout,
                "restart_guard": guard_time(options.max_ttl)
                if options.restart_guard is None
                else options.restart_guard,
                "interop": options.interop or "none",
            }
        for key, value in values.items():
            variable = _variable(key)
            source = "default"
            if key == "masters" and self._masters is not None:
                source = "--masters"
            elif os.environ.get(variable, "").strip():
                source = variable
            elif variable in in_file:
                source = str(path)
            yield Setting(key, value, source)


def settings_options(command: F) -> F:
    """Add --masters and --config; the command gets both as ``settings``."""

    @click.option(
        "--masters",
        metavar="URLS",
        help="host:port, or URLs (redis, valkey; with TLS rediss, valkeys; unix, redis+sentinel), separated "
        "by commas; default: $RLOCK_MASTERS.",
    )
    @click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="TOML file with masters, ttl, ...; default: $RLOCK_CONFIG, ~/.config/rlock/config.toml, "
        "/etc/rlock/config.toml.",
    )
    @wraps(command)
    def with_settings(*args: Any, masters: str | None, config: Path | None, **options: Any) -> Any:
        return command(*args, settings=Settings(masters, config), **options)

    return with_settings  # type: ignore[return-value]


def file_of(environ: Mapping[str, str]) -> Path | None:
    """The first settings file that there is: named by the environment, the user's, the machine's."""
    named = environ.get("RLOCK_CONFIG")
    if named is not None:
        return Path(named) if named else None  # empty: none at all
    homes = []
    if environ.get("XDG_CONFIG_HOME"):
        homes.append(Path(environ["XDG_CONFIG_HOME"]))
    elif environ.get("HOME"):  # without one, not the .config of whatever directory this is
        homes.append(Path(environ["HOME"], ".config"))
    for path in (*(home / "rlock" / "config.toml" for home in homes), Path("/etc/rlock/config.toml")):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            pass  # there may be one; who reads it says what is wrong
        return path
    return None


def read(path: Path) -> dict[str, str]:
    """A settings file as environment variables. Raises `ConfigError` that names the file and the line."""
    environ: dict[str, str] = {}
    try:
        for key, value in _parse(path).items():
            if key not in KEYS:
                meant = _meant(key, KEYS) or f": it may hold {', '.join(KEYS)}"
                raise ConfigError(f"{key!r} is no setting{meant}")
            environ[_variable(key)] = _text(key, value)
    except OptionsError as error:
        raise ConfigError(f"{path}: {error}") from None
    _warn_of_others(path, environ.get("RLOCK_MASTERS", ""))
    return environ


def _parse(path: Path) -> dict[str, Any]:
    # Not needed by those who have no file: a command in a crontab starts sooner without.
    import tomllib

    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # to open it would wait for somebody who writes
            raise ConfigError("cannot be read: it is a pipe; write the settings to a file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError("cannot be read: it is no settings file, it has over 20 KB")
        found: dict[str, Any] = tomllib.loads(content.decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        other = "name another file with --config, or none with RLOCK_CONFIG="
        raise ConfigError(f"cannot be read: {why}; {other}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is no TOML: {error}") from None
    except ConfigError:
        raise
    except (RecursionError, ValueError):
        raise ConfigError("is no settings file: a list is too deep, or a number too long") from None
    return found


def _meant(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The known word that may be meant."""
    import difflib

    near = difflib.get_close_matches(word, known, 1, likeness)
    return f": did you mean {near[0]!r}?" if near else ""


def _variable(key: str) -> str:
    return f"RLOCK_{key.upper()}"


def _masters(value: object) -> str:
    urls = [value] if isinstance(value, str) else value
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        # Without the value: it may hold a password.
        raise ConfigError('masters must be a list of URLs, such as ["redis://10.0.0.1:6379", ...]')
    told = ",".join(url.strip() for url in urls)
    if not told.strip(", "):
        raise ConfigError('masters is empty: give at least one URL, or leave the line "masters" out')
    return told


def _interop(value: object) -> str:
    if value != "redisson":
        raise ConfigError(f'interop must be "redisson", or be left out, not {shown(value)}')
    return "redisson"


def _text(key: str, value: object) -> str:
    """A setting as its environment variable has it."""
    if key == "masters":
        return _masters(value)
    if key == "interop":
        return _interop(value)
    check_seconds(key, value, or_zero=key == "restart_guard")
    return repr(value)


def _warn_of_others(path: Path, urls: str) -> None:
    """Say once that others on the machine can read a password, or change the settings."""
    try:
        status = path.stat()
    except OSError:
        return
    # For anybody but its owner the group may be the way to read it: an administrator has set that up.
    group = stat.S_IRGRP if status.st_uid == os.geteuid() else 0
    mode = status.st_mode if stat.S_ISREG(status.st_mode) and path not in _told else 0
    if mode & stat.S_IWOTH:
        _told.add(path)
        complain(f"{path} names the masters, and everybody can write it: chmod o-w {path}")
    elif mode & (stat.S_IROTH | group) and any(map(_has_password, re.split(r"[,\s]+", urls))):
        _told.add(path)
        complain(f"{path} holds a password, and others than its owner can read it: chmod 600 {path}")


def _has_password(url: str) -> bool:
    """Also in a malformed URL."""
    return ":" in url.partition("//")[2].rpartition("@")[0] or "password=" in url
