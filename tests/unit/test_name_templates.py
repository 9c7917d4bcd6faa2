"""The names of locks of decorated functions."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import rlock
from rlock import OptionsError, locked

CLIENT = rlock.Client("redis://127.0.0.1:1")  # nobody is asked


def name_of(template: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    name: str = locked(CLIENT, template)(function).lock(*args, **kwargs).name
    return name


def report(user_id: int, kind: str = "week", *args: Any, flag: bool = False, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("template", "arguments", "options", "name"),
    [
        ("r:{user_id}", (42,), {}, "r:42"),
        ("r:{user_id}", (), {"user_id": 42}, "r:42"),
        ("r:{user_id}:{kind}:{flag}", (42,), {}, "r:42:week:False"),
        ("r:{user_id:05d}", (42,), {}, "r:00042"),
        ("r:{args[1]}", (1, "week", "a", "b"), {}, "r:b"),
        ("r:{kwargs[shard]}", (1,), {"shard": 7}, "r:7"),
        ("r:{user_id[key].id}", ({"key": SimpleNamespace(id=3)},), {}, "r:3"),
        ("{{r}}:{user_id}", (1,), {}, "{r}:1"),
        (lambda user_id, kind="day": f"{kind}-{user_id}", (5,), {}, "day-5"),
    ],
)
def test_the_name_comes_from_the_arguments_of_the_call(
    template: Any, arguments: tuple[Any, ...], options: dict[str, Any], name: str
) -> None:
    assert name_of(template, report, *arguments, **options) == name


def test_a_field_that_is_no_parameter_is_refused_at_decoration_with_those_there_are() -> None:
    with pytest.raises(
        OptionsError, match=r"\{user\} .* no parameter of report\(\).*user_id, kind, args, flag"
    ):
        locked(CLIENT, "r:{user}")(report)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("r:{}", "is no parameter of report"),
        ("r:{user_id", "is no template"),
        ("", "must not be empty"),
        ("rlock:x", "the library's own"),
        (5, "a template or a function of a name"),
    ],
)
def test_an_impossible_name_is_refused_at_decoration(template: Any, told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        locked(CLIENT, template)(report)


@pytest.mark.parametrize(
    ("template", "argument", "told"),
    [
        ("{user_id.nothing}", 1, "does not fit this call of report.*AttributeError"),
        ("{user_id}", "", "must not be empty"),
        ("{user_id}", "rlock:x", "the library's own"),
        (lambda user_id: user_id, 3, "must be a str"),
    ],
)
def test_a_call_that_gives_no_name_is_refused_before_anybody_is_asked(
    template: Any, argument: object, told: str
) -> None:
    with pytest.raises(OptionsError, match=told):
        name_of(template, report, argument)


@pytest.mark.parametrize("value", [object(), [object()], report, lambda: 1])
def test_a_name_that_would_differ_from_process_to_process_is_refused(value: object) -> None:
    for template in ("r:{user_id}", "r:{user_id!r}"):
        with pytest.raises(OptionsError, match="same in every process"):
            name_of(template, report, value)
    assert name_of("r:{user_id}", report, "look at 0x12") == "r:look at 0x12"
