"""`rlock evict`: whom it asks about, and whom it takes the lock from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing

import pytest

import rlock
from rlock.rules.keys import owner_token

from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .shell import ask, one_line
from .test_watch import Screen


def answer(urls: list[str], keys: str, between: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Run it on a terminal, and type when it asks; exit status and what stood there."""
    with closing(Screen(urls, "evict", "job")) as screen:
        assert screen.shows("[y/N]")
        between()
        screen.type(keys)
        return screen.ends(), screen.text


def test_on_a_terminal_it_asks_and_no_is_the_answer_that_is_taken_for_granted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, client.lock("job"):
        for keys in ("\n", "n\n"):
            code, shown = answer(masters3.urls, keys)
            assert code == 1
            assert f"/{os.getpid()}/MainThread" in shown
            assert "since 2" in shown
            assert "nobody was evicted" in shown
            assert client.status("job").locked
        code, shown = answer(masters3.urls, "y\n")
        assert code == 0
        assert "evicted" in shown
        assert not client.status("job").locked
        with pytest.raises(rlock.LeaseLostError):
            client.lock("job").release()
        assert client.lock("job").acquire(timeout=5)


def test_one_who_came_while_it_asked_is_not_evicted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        first, second = client.lock("job"), other.lock("job")
        first.acquire()

        def change() -> None:
            first.release()
            second.acquire()

        code, shown = answer(masters3.urls, "y\n", change)
        assert code == 1
        assert "released in the meantime: nobody was evicted" in shown
        assert second.is_owned()
        second.release()


def test_a_lock_that_nobody_holds_cannot_be_evicted(masters3: Fleet) -> None:
    code, out, err = ask(masters3.urls, "evict", "job", "-y")
    assert (code, out) == (1, "")
    assert one_line(err), err
    assert "nobody holds it" in err
    code, out, _ = ask(masters3.urls, "evict", "job", "-y", "--json")
    assert code == 1
    assert json.loads(out) == {"name": "job", "evicted": [], "holder": None, "since": None}


def test_with_an_owner_nobody_else_is_evicted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client:
        lock = client.lock("job")
        lock.acquire()
        stranger = owner_token("web/1/main")
        code, _, err = ask(masters3.urls, "evict", "job", "-y", "--owner", stranger)
        assert code == 1
        assert f"not by {stranger}" in err
        assert client.status("job").locked
        holder = client.status("job").holder
        assert holder is not None
        code, out, _ = ask(masters3.urls, "evict", "job", "-y", "--owner", holder, "--json")
        assert code == 0
        assert json.loads(out)["evicted"] == [holder]
        assert eventually(lambda: not client.status("job").locked)


def test_what_is_left_on_a_minority_is_called_what_it_is(masters3: Fleet) -> None:
    raw(masters3.urls[0]).hset("job", mapping={owner_token("web/1/main"): 1})
    code, out, _ = ask(masters3.urls, "evict", "job", "-y")
    assert code == 0
    assert "is no holder, and stands on 1 of 3 masters" in out
    assert not raw(masters3.urls[0]).exists("job")
