"""The option that names the masters, shared by the commands that need them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..client import Client

F = TypeVar("F", bound=Callable[..., Any])


def masters_option(command: F) -> F:
    """Add --masters."""
    return click.option(
        "--masters",
        metavar="URLS",
        help="redis://, rediss:// or unix:// URLs, separated by commas; default: $RLOCK_MASTERS.",
    )(command)


def client(masters: str | None, **options: Any) -> Client:
    """A client out of --masters and the environment; options that are None are left to the environment."""
    environ = dict(os.environ)
    if masters is not None:
        environ["RLOCK_MASTERS"] = masters
    return Client.from_env(environ, **{key: value for key, value in options.items() if value is not None})
