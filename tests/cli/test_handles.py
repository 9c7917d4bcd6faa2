"""`rlock acquire`, `renew` and `release`: a lock for the lines of a shell script."""

from __future__ import annotations

import json
import shlex
import signal
import threading
import time
from pathlib import Path

import pytest

from rlock import Client
from rlock.rules.handles import Handle

from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .shell import RLOCK, begin, done, environment, inside, one_line


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
    refused = inside("acquire", "job", "--ttl", "10m", masters=masters3.urls)
    assert refused.code == 64
    assert one_line(refused.err)
    assert "--ttl=600 s is over max_ttl=10 s" in refused.err
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
    refused = inside(verb, "redis://:hidden@host", masters=masters3.urls)
    assert refused.code == 64
    assert "hidden" not in refused.err
    assert "the text is no handle" in refused.err
    handle = inside("acquire", "job", "--ttl", "5", masters=masters3.urls).out.strip()
    refused = inside(verb, handle, masters=masters3.urls[:1])
    assert refused.code == 64
    assert "was detached on a fleet of 3" in refused.err
    unreachable = inside(
        verb, handle, masters=[f"redis://127.0.0.1:{port}" for port in (1, 2, 3)], RLOCK_REQUEST_TIMEOUT="0.1"
    )
    assert unreachable.code == 69


def test_without_a_reader_of_the_handle_the_lock_is_free(masters3: Fleet) -> None:
    full = done(
        ["sh", "-c", '"$@" >/dev/full', "sh", *RLOCK, "acquire", "job", "--ttl", "9"],
        env=environment(masters3.urls),
    )
    assert full.code == 74
    with Client(masters3.urls) as client:
        assert client.lock("job").acquire(blocking=False)


def test_a_signal_while_it_waits_leaves_nothing(masters3: Fleet) -> None:
    with Client(masters3.urls) as client:
        lock = client.lock("job")
        lock.acquire()
        waiting = begin("acquire", "job", "--ttl", "9", masters=masters3.urls)
        assert eventually(lambda: client.status("job").queue_length == 1)
        waiting.send_signal(signal.SIGTERM)
        out, err = waiting.communicate(timeout=20)
        assert (waiting.returncode, out, err) == (130, "", "")
        assert eventually(lambda: client.status("job").queue_length == 0)
        lock.release()


def test_a_lapsed_handle_is_lost_for_a_script_as_well(masters3: Fleet, tmp_path: Path) -> None:
    handle = inside("acquire", "job", "--ttl", "0.3", masters=masters3.urls, RLOCK_TTL="0.2").out.strip()
    assert Handle.parse(handle, 3).lease_ms == 300
    time.sleep(0.4)
    assert inside("renew", handle, "--ttl", "5", masters=masters3.urls).code == 76


def test_without_a_standard_output_for_the_handle_nothing_is_acquired(masters3: Fleet) -> None:
    words = [*RLOCK, "acquire", "job", "--ttl", "9"]
    closed = done(["sh", "-c", f"{shlex.join(words)} >&-"], env=environment(masters3.urls))
    assert closed.code == 64
    assert "standard output is closed" in closed.err
    with Client(masters3.urls) as client:
        assert client.status("job").free
