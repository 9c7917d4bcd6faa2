"""rlock.locked: what it refuses, whose client it takes, and tasks; no master is needed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock import OptionsError, locked

CLIENT = rlock.Client("redis://127.0.0.1:1")  # nobody is asked
TASK_CLIENT = rlock.asyncio.Client("redis://127.0.0.1:1")


def report(user_id: int, kind: str = "week", *args: Any, flag: bool = False, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"blocking": False, "timeout": 5}, "no timeout with blocking=False"),
        ({"timeout": -2}, "timeout=-2.*give seconds, or -1"),
        ({"timeout": "5"}, "timeout='5'.*give seconds"),
        ({"on_busy": "skip"}, "never used .* add blocking=False or a timeout"),
        ({"blocking": False, "on_busy": "ignore"}, "'skip' or 'raise'"),
        ({"ttl": 20}, "max_ttl"),
        ({"max_hold": 5, "renew": False}, "give one of the two"),
        ({"fair": 1}, "fair must be"),
    ],
)
def test_options_that_do_not_fit_together_are_refused_before_there_is_a_function(
    options: dict[str, Any], told: str
) -> None:
    with pytest.raises(OptionsError, match=told):
        locked(CLIENT, "x", **options)


@pytest.mark.parametrize("options", [{"ttl": -1}, {"ttl": 0.01}, {"max_hold": 0}, {"on_lost": 3}])
def test_options_are_checked_at_decoration_when_the_client_is_not_there_yet(options: dict[str, Any]) -> None:
    with pytest.raises(OptionsError, match=next(iter(options))):
        locked(rlock.Client.from_env, "x", **options)
    locked(rlock.Client.from_env, "x", ttl=60)  # the client's max_ttl may allow it


@pytest.mark.parametrize("client", [None, 3, "redis://x", rlock.Client])
def test_anything_but_a_client_or_a_factory_is_refused(client: object) -> None:
    with pytest.raises(OptionsError, match="needs a client"):
        locked(client, "x")


def test_a_client_of_the_wrong_kind_is_refused_at_decoration_or_else_at_the_call() -> None:
    async def task() -> None: ...

    with pytest.raises(
        OptionsError, match=r"task\(\) is a coroutine function.*give it an rlock.asyncio.Client"
    ):
        locked(CLIENT, "x")(task)
    with pytest.raises(OptionsError, match=r"report\(\) is a function.*give it an rlock.Client,"):
        locked(TASK_CLIENT, "x")(report)
    with pytest.raises(OptionsError, match=r"give it an rlock\.asyncio\.Client"):
        asyncio.run(locked(lambda: CLIENT, "x")(task)())
    with pytest.raises(OptionsError, match=r"give it an rlock\.Client"):
        locked(lambda: TASK_CLIENT, "x")(report)(1)


def test_generators_are_refused() -> None:
    def items() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for client, generator in ((CLIENT, items), (TASK_CLIENT, later)):
        with pytest.raises(OptionsError, match="released before its first item is made; use `with"):
            locked(client, "x")(generator)


def test_the_length_of_a_name_is_checked_before_its_text() -> None:
    """A search that goes back takes hours for a megabyte, and keeps other threads out."""
    with pytest.raises(OptionsError, match="may have 1024 bytes, this one has 1000005"):
        locked(CLIENT, "page:{user_id}")(report).lock("<" * 1_000_000)
    assert locked(CLIENT, "page:{user_id}")(report).lock("<" * 1000).name == "page:" + "<" * 1000


def test_a_factory_is_called_at_the_first_use_and_all_functions_share_its_client() -> None:
    made: list[rlock.Client] = []
    found: list[rlock.Client] = []

    def make() -> rlock.Client:
        time.sleep(0.05)  # all the others come meanwhile
        made.append(rlock.Client("redis://127.0.0.1:1"))
        return made[-1]

    first, second = locked(make, "a")(report), locked(make, "b")(report)
    assert not made
    threads = [
        threading.Thread(target=lambda wrapped=wrapped: found.append(wrapped.lock(1)._client))
        for wrapped in (first, second) * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert len(set(found)) == 1, "two clients exclude each other even in one thread"
    calls = len(made)
    assert (first.lock(1).name, second.lock(1).name) == ("a", "b")
    assert len(made) == calls, "the client is made already"


def name_of(template: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    name: str = locked(CLIENT, template)(function).lock(*args, **kwargs).name
    return name


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
