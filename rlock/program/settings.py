"""The settings that the commands share: flags, else the environment, else a small TOML file."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from ..client import Client
from ..errors import OptionsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

F = TypeVar("F", bound=Callable[..., Any])


class ConfigError(OptionsError):
    """The settings file cannot be used."""


#: What the file may hold; each is the name of an environment variable, too: RLOCK_TTL for ttl.
KEYS = ("masters", "ttl", "max_ttl", "request_timeout", "restart_guard")


class Settings:
    """Where the masters are, and the times; what was not given is looked up when it is needed."""

    def __init__(self, masters: str | None = None, config: Path | None = None) -> None:
        self._masters = masters
        self._config = config

    def environ(self) -> dict[str, str]:
        """The environment, with what the flags and the file say of our variables."""
        path = self._config or file_of(os.environ)
        environ = {**(read(path) if path is not None else {}), **os.environ}
        if self._masters is not None:
            environ["RLOCK_MASTERS"] = self._masters
        return environ

    def client(self, **options: Any) -> Client:
        """A client; options that are None are left to the settings."""
        given = {key: value for key, value in options.items() if value is not None}
        return Client.from_env(self.environ(), **given)


def settings_options(command: F) -> F:
    """Add --masters and --config; the command gets both as ``settings``."""

    @click.option(
        "--masters",
        metavar="URLS",
        help="redis://, rediss:// or unix:// URLs, separated by commas; default: $RLOCK_MASTERS.",
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
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
    for path in (Path(home) / "rlock" / "config.toml", Path("/etc/rlock/config.toml")):
        if path.exists():
            return path
    return None


def read(path: Path) -> dict[str, str]:
    """A settings file as environment variables. Raises `ConfigError` that names the file and the line."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read: {why}; name another file with --config") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is no TOML: {error}") from None
    environ: dict[str, str] = {}
    for key, value in found.items():
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"it may hold {', '.join(KEYS)}"
            raise ConfigError(f"{path}: {key!r} is no setting: {meant}")
        if key == "masters":
            urls = [value] if isinstance(value, str) else value
            if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
                raise ConfigError(
                    f'{path}: masters must be a list of URLs, such as ["redis://10.0.0.1:6379", ...], '
                    f"not {value!r}"
                )
            environ["RLOCK_MASTERS"] = ",".join(urls)
        else:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"{path}: {key} must be a number of seconds, not {value!r}")
            environ[f"RLOCK_{key.upper()}"] = repr(value)
    return environ
