"""rlock.locked: on masters; what it refuses, whose client it takes, and names, without any master."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock import Client, OptionsError, locked

from .conftest import eventually, running

pytestmark = pytest.mark.kinds("blocking", "memory")


def test_the_body_runs_under_the_lock_and_the_result_is_returned(client: Client, other: Client) -> None:
    @rlock.locked(client, "report:{user_id}")
    def report(user_id: int) -> tuple[int, bool, bool, int]:
        """Makes one."""
        lock = report.lock(user_id)
        lock.check()
        taken = other.lock("report:7").acquire(blocking=False)
        return user_id, lock.is_owned(), taken, lock.fencing_token

    user_id, owned, taken, token = report(7)
    assert (user_id, owned, taken) == (7, True, False)
    assert token > 0
    assert not report.lock(7).is_owned()
    assert other.lock("report:7").acquire(blocking=False), "it was not released"
    assert (report.__name__, report.__doc__) == ("report", "Makes one.")
    assert list(inspect.signature(report).parameters) == ["user_id"]


def test_on_busy_decides_the_result_of_a_call_with_a_busy_lock(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def body(a: int, b: int = 0) -> tuple[str, int, int]:
        return "body", a, b

    raising = rlock.locked(client, "x", blocking=False, on_busy="raise")(body)
    waiting = rlock.locked(client, "x", timeout=0.3)(body)
    trying = rlock.locked(client, "x", blocking=False)(body)
    skipping = rlock.locked(client, "x", timeout=0.1, on_busy="skip")(body)
    with other.lock("x"), caplog.at_level(logging.INFO, "rlock"):
        with pytest.raises(rlock.LockBusyError) as caught:
            raising(1)
        assert caught.value.waited == 0
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(rlock.LockBusyError) as late:
            waiting(1)
        assert 0.29 < late.value.waited < 5
        assert trying(1) is skipping(1) is None
    assert caplog.text.count("body() was skipped") == 2
    assert raising(1) == trying(1) == skipping(1) == ("body", 1, 0)


def test_a_loss_is_raised_after_the_body_and_never_instead_of_its_error(client: Client) -> None:
    losses: list[rlock.LeaseLostError] = []

    @rlock.locked(client, "x", timeout=5, ttl=0.6, renew=False, on_lost=losses.append)
    def work(fail: bool) -> None:
        assert work.lock(fail).lost.wait(30)
        with pytest.raises(rlock.LeaseLostError):
            work.lock(fail).check()
        if fail:
            raise ZeroDivisionError

    with pytest.raises(rlock.LeaseLostError):
        work(False)
    with pytest.raises(ZeroDivisionError):
        work(True)
    assert eventually(lambda: [error.name for error in losses] == ["x", "x"])


def test_methods_of_every_kind_can_be_decorated_in_any_order(client: Client) -> None:
    by_class: Any = rlock.locked(client, "{cls.__name__}:{order}")
    static: Any = rlock.locked(client, "static:{order}")

    def of_class(cls: type, order: int) -> tuple[str, bool]:
        return cls.__name__, client.lock(f"{cls.__name__}:{order}").is_owned()

    def of_nobody(order: int) -> tuple[str, bool]:
        return "static", client.lock(f"static:{order}").is_owned()

    class Shop:
        shard = "north"

        @rlock.locked(client, "{self.shard}:{order}")
        def method(self, order: int) -> tuple[str, bool]:
            return self.shard, client.lock(f"north:{order}").is_owned()

        inside: Any = classmethod(by_class(of_class))
        outside = by_class(classmethod(of_class))
        still, moving = staticmethod(static(of_nobody)), static(staticmethod(of_nobody))

    class Sub(Shop): ...

    for kind in (Shop, Sub):
        shop: Any = kind()
        assert shop.method(1) == kind.method(shop, 1) == ("north", True)
        assert shop.inside(1) == kind.inside(1) == shop.outside(1) == kind.outside(1) == (kind.__name__, True)
        assert shop.still(1) == kind.still(1) == shop.moving(1) == kind.moving(1) == ("static", True)
        assert shop.method.lock(shop, 2).name == "north:2"


def test_a_body_that_begins_after_the_release_is_refused(client: Client) -> None:
    @contextmanager
    def managed() -> Iterator[None]:
        yield

    def generated() -> Iterator[None]:
        yield

    async def awaited() -> None:
        raise AssertionError("it runs")

    for function in (managed, lambda: generated(), lambda: awaited()):
        with pytest.raises(rlock.OptionsError, match="would run without the lock"):
            rlock.locked(client, "x")(function)()
        assert not client.lock("x").locked()


CLIENT = rlock.Client("redis://127.0.0.1:1")  # nobody is asked
TASK_CLIENT = rlock.asyncio.Client("redis://127.0.0.1:1")


def report(user_id: int, kind: str = "week", *args: Any, flag: bool = False, **kwargs: Any) -> None: ...


async def job() -> None: ...


def items() -> Iterator[int]:
    yield 1


async def later() -> AsyncIterator[int]:
    yield 1


def name_of(template: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    name: str = locked(CLIENT, template)(function).lock(*args, **kwargs).name
    return name


decorate: Any = locked
#: Options that are refused before a master is asked, most of them at decoration, and the error's words.
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: decorate(CLIENT, "x", blocking=False, timeout=5), "no timeout with blocking=False"),
    (lambda: decorate(CLIENT, "x", timeout=-2), "timeout=-2.*give seconds, or -1"),
    (lambda: decorate(CLIENT, "x", timeout="5"), "timeout='5'.*give seconds"),
    (lambda: decorate(CLIENT, "x", on_busy="skip"), "never used .* add blocking=False or a timeout"),
    (lambda: decorate(CLIENT, "x", blocking=False, on_busy="ignore"), "'skip' or 'raise'"),
    (lambda: decorate(CLIENT, "x", ttl=20), "max_ttl"),
    (lambda: decorate(CLIENT, "x", renew=0), "renew must be True or False"),
    # The client is not there yet.
    (lambda: decorate(rlock.Client.from_env, "x", ttl=-1), "ttl"),
    *((lambda no=no: decorate(no, "x"), "needs a client") for no in (None, 3, "redis://x", rlock.Client)),
    # A client or a function of the other kind, and a generator.
    (lambda: decorate(CLIENT, "x")(job), r"job\(\) is a coroutine function.*give it an rlock.asyncio.Client"),
    (lambda: decorate(TASK_CLIENT, "x")(report), r"report\(\) is a function.*give it an rlock.Client,"),
    (lambda: asyncio.run(decorate(lambda: CLIENT, "x")(job)()), r"give it an rlock\.asyncio\.Client"),
    (lambda: decorate(lambda: TASK_CLIENT, "x")(report)(1), r"give it an rlock\.Client"),
    (lambda: decorate(CLIENT, "x")(items), "released before its first item is made; use `with"),
    (lambda: decorate(TASK_CLIENT, "x")(later), "released before its first item is made; use `with"),
    # A name that no call can have.
    (lambda: decorate(CLIENT, "{user}")(report), r"\{user\} .* no parameter of report\(\).*kind, args, flag"),
    (lambda: decorate(CLIENT, "r:{}")(report), "is no parameter of report"),
    (lambda: decorate(CLIENT, "r:{user_id")(report), "is no template"),
    (lambda: decorate(CLIENT, "")(report), "must not be empty"),
    (lambda: decorate(CLIENT, "rlock:x")(report), "the library's own"),
    (lambda: decorate(CLIENT, 5)(report), "a template or a function of a name"),
    *(
        (
            lambda client=client, no=no: locked(client, "x", shared=True, **no),
            "leave fair and hold_at_least out",
        )
        for client in (CLIENT, lambda: CLIENT)
        for no in ({"hold_at_least": 1}, {"fair": False})
    ),
    # A call that gives no name.
    (lambda: name_of("{user_id.nothing}", report, 1), "does not fit this call of report.*AttributeError"),
    (lambda: name_of("{user_id}", report, ""), "must not be empty"),
    (lambda: name_of(lambda user_id: user_id, report, 3), "must be a str"),
    # A search that goes back takes hours for a megabyte, and keeps other threads out.
    (lambda: name_of("page:{user_id}", report, "<" * 1_000_000), "may have 1024 bytes, this one has 1000005"),
    # A name that would differ from process to process.
    *(
        (lambda template=template, value=value: name_of(template, report, value), "same in every process")
        for template in ("r:{user_id}", "r:{user_id!r}")
        for value in (object(), [object()], report, lambda: 1)
    ),
]


@pytest.mark.parametrize(("make", "told"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_cannot_work_is_refused_before_anybody_is_asked(make: Callable[[], object], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        make()


def test_what_may_work_is_not_refused() -> None:
    locked(rlock.Client.from_env, "x", ttl=60)  # the client's max_ttl may allow it
    assert name_of("page:{user_id}", report, "<" * 1000) == "page:" + "<" * 1000
    assert name_of("r:{user_id}", report, "look at 0x12") == "r:look at 0x12"


def test_a_factory_is_called_at_the_first_use_and_all_functions_share_its_client() -> None:
    made: list[rlock.Client] = []
    found: list[rlock.Client] = []

    def make() -> rlock.Client:
        time.sleep(0.05)  # all the others come meanwhile
        made.append(rlock.Client("redis://127.0.0.1:1"))
        return made[-1]

    first, second = locked(make, "a")(report), locked(make, "b")(report)
    assert not made
    with running(*(lambda each=each: found.append(each.lock(1)._client) for each in (first, second) * 4)):
        pass
    assert len(found) == 8
    assert len(set(found)) == 1, "two clients exclude each other even in one thread"
    calls = len(made)
    assert (first.lock(1).name, second.lock(1).name) == ("a", "b")
    assert len(made) == calls, "the client is made already"


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
