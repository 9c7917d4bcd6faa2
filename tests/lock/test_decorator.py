"""rlock.locked on real masters: blocking functions."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import rlock

from ..fixtures import FreshMasters
from ..servers import Fleet
from .conftest import MakeClient, in_thread

pytestmark = pytest.mark.kinds("blocking", "memory")


@pytest.fixture
def client(masters3: Fleet, make_client: MakeClient) -> rlock.Client:
    return make_client(masters3.urls)


@pytest.fixture
def other(masters3: Fleet, make_client: MakeClient) -> rlock.Client:
    """As another process."""
    return make_client(masters3.urls)


def test_the_body_runs_under_the_lock_and_the_result_is_returned(
    urls: list[str], make_client: MakeClient
) -> None:
    client, stranger = make_client(urls), make_client(urls)

    @rlock.locked(client, "report:{user_id}")
    def report(user_id: int) -> tuple[int, bool, bool, int]:
        """Makes one."""
        lock = report.lock(user_id)
        lock.check()
        taken = stranger.lock("report:7").acquire(blocking=False)
        return user_id, lock.is_owned(), taken, lock.fencing_token

    user_id, owned, taken, token = report(7)
    assert (user_id, owned, taken) == (7, True, False)
    assert token > 0
    assert not report.lock(7).is_owned()
    assert stranger.lock("report:7").acquire(blocking=False), "it was not released"
    assert (report.__name__, report.__doc__) == ("report", "Makes one.")
    assert list(inspect.signature(report).parameters) == ["user_id"]


def test_a_second_call_is_skipped_and_the_log_says_so(
    client: rlock.Client, other: rlock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    ran = []

    @rlock.locked(client, "x", blocking=False)
    def work() -> str:
        ran.append(1)
        return "done"

    with other.lock("x"), caplog.at_level(logging.INFO, "rlock"):
        assert work() is None
    assert not ran
    (record,) = [record for record in caplog.records if "skipped" in record.getMessage()]
    assert (record.name, record.levelno) == ("rlock", logging.INFO)
    assert "'x'" in record.getMessage()
    assert "work()" in record.getMessage()
    assert work() == "done"


def test_on_busy_decides_the_result_of_a_call_with_a_busy_lock(
    client: rlock.Client, other: rlock.Client
) -> None:
    def body(a: int, b: int = 0) -> tuple[str, int, int]:
        return "body", a, b

    raising = rlock.locked(client, "x", blocking=False, on_busy="raise")(body)
    waiting = rlock.locked(client, "x", timeout=0.3)(body)
    skipping = rlock.locked(client, "x", timeout=0.1, on_busy="skip")(body)
    with other.lock("x"):
        with pytest.raises(rlock.LockBusyError) as caught:
            raising(1)
        assert caught.value.waited == 0
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(rlock.LockBusyError) as late:
            waiting(1)
        assert 0.29 < late.value.waited < 5
        assert skipping(1) is None
    assert raising(1) == skipping(1) == ("body", 1, 0)


@pytest.mark.real_masters
def test_unreachable_masters_do_not_count_as_busy(
    fresh_masters: FreshMasters, make_client: MakeClient
) -> None:
    fleet = fresh_masters(3)
    client = make_client(fleet.urls, request_timeout=0.2)
    for master in fleet[:2]:
        master.kill()

    def answer() -> str:
        raise AssertionError("it is not known to be busy")

    for options in ({"blocking": False}, {"timeout": 0.3}, {"timeout": 0.3, "on_busy": "skip"}):
        with pytest.raises(rlock.QuorumUnreachableError):
            rlock.locked(client, "x", **options)(answer)()


def test_a_loss_is_raised_after_the_body_and_never_instead_of_its_error(
    client: rlock.Client, other: rlock.Client
) -> None:
    @rlock.locked(client, "x", timeout=5)
    def work(fail: bool) -> None:
        in_thread(lambda: other.evict("x"))
        assert work.lock(fail).lost.wait(30)
        with pytest.raises(rlock.LeaseLostError):
            work.lock(fail).check()
        if fail:
            raise ZeroDivisionError

    with pytest.raises(rlock.LeaseLostError):
        work(False)
    with pytest.raises(ZeroDivisionError):
        work(True)


def test_the_options_of_the_lock_are_passed_on(client: rlock.Client) -> None:
    losses: list[rlock.LeaseLostError] = []
    told = threading.Event()

    def lost(error: rlock.LeaseLostError) -> None:
        losses.append(error)
        told.set()

    @rlock.locked(client, "x", ttl=0.6, renew=False, on_lost=lost)
    def work() -> float:
        left: float = work.lock().remaining()
        assert told.wait(30)
        return left

    with pytest.raises(rlock.LeaseLostError):
        work()
    assert losses[0].name == "x"


def test_methods_of_every_kind_can_be_decorated_in_any_order(client: rlock.Client) -> None:
    class Shop:
        def __init__(self, shard: str) -> None:
            self.shard = shard

        @rlock.locked(client, "{self.shard}:{order}")
        def method(self, order: int) -> tuple[str, bool]:
            return self.shard, client.lock(f"north:{order}").is_owned()

        @classmethod
        @rlock.locked(client, "{cls.__name__}:{order}")
        def inside(cls, order: int) -> tuple[str, bool]:
            return cls.__name__, client.lock(f"{cls.__name__}:{order}").is_owned()

        @rlock.locked(client, "{cls.__name__}:{order}")
        @classmethod
        def outside(cls, order: int) -> tuple[str, bool]:
            return cls.__name__, client.lock(f"{cls.__name__}:{order}").is_owned()

        @staticmethod
        @rlock.locked(client, "static:{order}")
        def still(order: int) -> tuple[str, bool]:
            return "static", client.lock(f"static:{order}").is_owned()

        @rlock.locked(client, "static:{order}")
        @staticmethod
        def moving(order: int) -> tuple[str, bool]:
            return "static", client.lock(f"static:{order}").is_owned()

    class Sub(Shop): ...

    shop: Any = Shop("north")
    sub: Any = Sub("north")
    assert shop.method(1) == Shop.method(shop, 1) == sub.method(1) == ("north", True)
    assert shop.inside(1) == Shop.inside(1) == shop.outside(1) == Shop.outside(1) == ("Shop", True)
    assert sub.inside(1) == Sub.outside(1) == ("Sub", True)
    assert shop.still(1) == Shop.still(1) == shop.moving(1) == Shop.moving(1) == ("static", True)
    assert shop.method.lock(shop, 2).name == "north:2"


def test_a_body_that_begins_after_the_release_is_refused(client: rlock.Client) -> None:
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
