"""`rlock acquire`, `renew` and `release`: a lock for the lines of a shell script."""

from __future__ import annotations

import json
import threading

import pytest

from rlock import Client

from ..servers import Fleet, raw
from .shell import RLOCK, done, environment, inside, refused


def test_a_script_has_the_lock_from_acquire_to_release(masters3: Fleet) -> None:
    taken = inside("acquire", "job", "--ttl", "9s", masters=masters3.urls)
    assert (taken.code, taken.err) == (0, "")
    handle = taken.out.strip()
    with Client(masters3.urls) as client:
        assert 8 < (client.status("job").remaining or 0) <= 9
        busy = inside("acquire", "-n", "job", "--ttl", "9", masters=masters3.urls)
        assert (busy.code, busy.out) == (75, "")
        assert inside("renew", handle, "--ttl", "10", masters=masters3.urls) == (0, "", "")
        assert 9 < (client.status("job").remaining or 0) <= 10
        assert inside("release", handle, masters=masters3.urls) == (0, "", "")
        assert client.status("job").free
    for verb in ("renew", "release"):
        lost = inside(verb, handle, masters=masters3.urls)
        assert lost.code == 76
        assert "nobody has the lock: it was released or evicted, or its lease of 9 s has ended" in lost.err


def test_a_program_adopts_the_lock_of_a_script(masters3: Fleet) -> None:
    taken = inside("acquire", "--json", "job", "--ttl", "9", masters=masters3.urls)
    told = json.loads(taken.out)
    assert (told["event"], told["name"]) == ("acquired", "job")
    with Client(masters3.urls) as client:
        lock = client.adopt(told["handle"])
        assert lock.fencing_token == told["fencing_token"]
        lost = inside("release", told["handle"], masters=masters3.urls)
        assert lost.code == 76
        assert "has the lock: it adopted the handle before" in lost.err
        lock.check()
        handle = lock.detach()
    assert inside("release", handle, masters=masters3.urls).code == 0


def test_a_longer_time_than_that_of_the_fleet_is_refused_before_it_waits(masters3: Fleet) -> None:
    found = inside("acquire", "job", "--ttl", "10m", masters=masters3.urls)
    refused(found, 64, "--ttl=600 s is over max_ttl=10 s")
    for wrong in ("0", "-1m", "nan", "m", "1w"):
        assert inside("acquire", "job", "--ttl", wrong, masters=masters3.urls).code == 64
    with Client(masters3.urls) as client:
        assert client.status("job").free


def test_a_release_reaches_a_master_that_answers_late(masters3: Fleet) -> None:
    handle = inside("acquire", "job", "--ttl", "9", masters=masters3.urls).out.strip()
    masters3[2].pause()
    resumed = threading.Timer(0.2, masters3[2].resume)
    resumed.start()
    released = inside("release", handle, masters=masters3.urls, RLOCK_REQUEST_TIMEOUT="1")
    resumed.join()
    assert released == (0, "", "")
    with raw(masters3.urls[2]) as late:
        assert not late.exists("job")


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_a_text_that_is_no_handle_is_refused(verb: str, masters3: Fleet) -> None:
    found = inside(verb, "redis://:hidden@host", masters=masters3.urls)
    refused(found, 64, "the text is no handle")
    assert "hidden" not in found.err
    handle = inside("acquire", "job", "--ttl", "5", masters=masters3.urls).out.strip()
    refused(inside(verb, handle, masters=masters3.urls[:1]), 64, "was detached on a fleet of 3")
    nowhere = [f"redis://127.0.0.1:{port}" for port in (1, 2, 3)]
    assert inside(verb, handle, masters=nowhere).code == 69


@pytest.mark.parametrize(("to", "code"), [(">/dev/full", 74), (">&-", 64)])
def test_without_a_reader_of_the_handle_the_lock_is_free(to: str, code: int, masters3: Fleet) -> None:
    words = ["sh", "-c", f'"$@" {to}', "sh", *RLOCK, "acquire", "job", "--ttl", "9"]
    assert done(words, env=environment(masters3.urls)).code == code
    with Client(masters3.urls) as client:
        assert client.lock("job").acquire(blocking=False)
