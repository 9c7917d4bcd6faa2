"""handshake, on every server found: since when the memory of a master is whole."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator

import pytest
import redis

from rlock._client.handshake import ConnectOptions
from rlock._sync.connections import Endpoint
from rlock._sync.runtime import run
from rlock.rules.restart_guard import Note
from rlock.testing.local.embedded import Master, ServerBinary

from ..scripted import LIFE, NOTE, Box
from ..servers import label, raw, servers_found

OTHER = "a9b8" * 10
HOUR_US = 3_600_000_000
SPARES = 6
#: `uptime_in_seconds` is cut off at both ends, so a server may be so much younger than it tells.
UPTIME_ERROR_US = 1_000_000


def noted(box: Box) -> Note:
    """The note as the client reads it."""
    kind, text = box.content(NOTE)
    assert kind == "string"
    note = Note.parse(text)
    assert note is not None, f"{text!r} cannot be read"
    return note


def text_of(note: Note) -> str:
    """A note of which the clock was never set back, as it stands on a master."""
    return f"{note.run_id} {note.since_us} {note.max_ttl_ms}"


def handshake(box: Box, run_id: str = LIFE, memory: str = "volatile", known: str = "") -> Note:
    """Call it; the reply has to be the note that stands there, and the time."""
    before = box.time_us()
    code, text, count, ttl_ms, time_us = box.handshake(run_id, memory, known)
    assert (code, count, ttl_ms) == (1, 0, 0)
    assert before <= time_us <= box.time_us()
    assert ("string", text) == box.content(NOTE)
    assert box.pttl(NOTE) == -1
    return noted(box)


def is_now(box: Box, note: Note) -> bool:
    """Whether the memory is as young as this test's last step."""
    return 0 <= box.time_us() - note.since_us < 1_000_000


@pytest.fixture
def old(box: Box) -> Box:
    """A master with a note of this life, an hour old."""
    box.client.set(NOTE, f"{LIFE} {box.time_us() - HOUR_US} 10000")
    return box


@pytest.fixture(scope="module")
def spares() -> Iterator[dict[str, deque[Master]]]:
    """Unused servers of each kind. They grow old together: each test would wait two seconds for one alone."""
    waiting: dict[str, deque[Master]] = defaultdict(deque)
    yield waiting
    for masters in waiting.values():
        for master in masters:
            master.close()


@pytest.fixture(params=servers_found(), ids=label)
def new_master(request: pytest.FixtureRequest, spares: dict[str, deque[Master]]) -> Iterator[Master]:
    """A server of its own, with its uptime well above the error of the uptime."""
    binary: ServerBinary = request.param
    waiting = spares[label(binary)]
    while len(waiting) <= SPARES:
        waiting.append(Master(binary).start())
    master = waiting.popleft()
    yield master
    master.close()


@pytest.fixture
def new(new_master: Master) -> Iterator[Box]:
    """A master that nobody has used yet."""
    box = Box(new_master.url)
    deadline = time.monotonic() + 10.0
    while uptime_us(box) < 2_000_000:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield box
    box.close()


def uptime_us(box: Box) -> int:
    return int(box.client.info("server")["uptime_in_seconds"]) * 1_000_000


def first_use(box: Box, run_id: str = LIFE) -> Note:
    """As a client does that finds a fleet of which no master has granted a lease."""
    known = text_of(handshake(box, run_id))
    return handshake(box, run_id, "unused", known)


@pytest.mark.parametrize("memory", ["volatile", "durable"])
def test_a_master_without_free_memory_keeps_its_note_when_its_settings_change(old: Box, memory: str) -> None:
    if memory == "volatile":
        handshake(old, LIFE, "durable")
    before = old.content(NOTE)
    old.fill()
    handshake(old, LIFE, memory)
    assert old.content(NOTE) == before


@pytest.mark.parametrize("run_id", [LIFE, ""])
def test_at_first_use_the_memory_is_as_old_as_the_server(new: Box, run_id: str) -> None:
    before = new.time_us(), uptime_us(new)
    note = first_use(new, run_id)
    after = new.time_us(), uptime_us(new)
    assert before[0] - after[1] <= note.since_us - UPTIME_ERROR_US <= after[0] - before[1]
    assert not is_now(new, note)
    assert (note.run_id, note.max_ttl_ms) == (run_id, 0)


CHANGED: dict[str, Callable[[Note], Note]] = {
    "a lease was granted": lambda note: note._replace(max_ttl_ms=10_000),
    "the memory was lost": lambda note: note._replace(since_us=note.since_us + 1, first_us=note.since_us + 1),
    "another life": lambda note: note._replace(run_id=OTHER),
}


@pytest.mark.parametrize("how", CHANGED)
def test_a_note_that_is_not_the_known_one_any_more_is_left_alone(new: Box, how: str) -> None:
    """What the client knew of the fleet may not be so any more."""
    before = handshake(new)
    changed = CHANGED[how](before)
    new.client.set(NOTE, text_of(changed))
    for known in (text_of(before), ""):
        with new.nothing_written():
            assert handshake(new, LIFE, "unused", known) == changed


def test_a_first_use_makes_no_memory_younger(new: Box) -> None:
    """The clock of the master was set meanwhile, or the operator vouched for it."""
    for since_us in (0, new.time_us() - HOUR_US):
        known = f"{LIFE} {since_us} 0"
        new.client.set(NOTE, known)
        assert handshake(new, LIFE, "unused", known).since_us == since_us


def evict_keys(client: redis.Redis) -> None:
    """The note, or a lock, may have been among them."""
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.mset({f"other:{i}": "x" * 1_000 for i in range(200)})
    client.config_set("maxmemory", str(int(client.info("memory")["used_memory"]) - 50_000))
    for i in range(50):
        client.set(f"more:{i}", "x" * 1_000)
    assert int(client.info("stats")["evicted_keys"]) > 0
    client.config_set("maxmemory", "0")


FLUSHES: dict[str, Callable[[redis.Redis], object]] = {
    "evicted keys": evict_keys,
    "FLUSHALL": lambda client: client.flushall(),
    "FLUSHDB": lambda client: client.flushdb(),
    "SWAPDB": lambda client: client.swapdb(0, 1),
    "REPLICAOF": lambda client: (client.replicaof("127.0.0.1", "1"), client.replicaof("NO", "ONE")),
    # Redis 6.2 does not see the reset, but that it was a replica.
    "REPLICAOF, CONFIG RESETSTAT": lambda client: (FLUSHES["REPLICAOF"](client), client.config_resetstat()),
    "SLAVEOF": lambda client: (client.slaveof("127.0.0.1", 1), client.slaveof()),
    "DEBUG": lambda client: client.execute_command("DEBUG", "JMAP"),
}


@pytest.mark.parametrize("how", FLUSHES)
def test_a_server_that_was_flushed_or_was_a_replica_is_not_at_its_first_use(new: Box, how: str) -> None:
    try:
        FLUSHES[how](new.client)
    except redis.ResponseError:
        assert how == "DEBUG", "an unknown one, or one that is not allowed, is counted all the same"
    assert is_now(new, first_use(new))


def test_a_server_that_does_not_tell_its_past_is_not_at_its_first_use(new: Box) -> None:
    assert is_now(new, first_use(new.restricted("-info")))


NO_NOTES = ["", "hello", "LIFE", "LIFE 5", "LIFE x 5", "LIFE 5 x", "LIFE -5 10", "x LIFE 5 600", "LIFE 5 6 "]
NO_NUMBERS = ["nan", "1e9", "inf", "٣", str(10**16)]


@pytest.mark.parametrize("garbage", [*NO_NOTES, f"LIFE {10**16} 5", *(f"LIFE 5 {no}" for no in NO_NUMBERS)])
def test_a_text_that_is_no_note_is_written_over_as_if_there_were_none(box: Box, garbage: str) -> None:
    box.client.set(NOTE, garbage.replace("LIFE", LIFE))
    note = handshake(box)
    assert is_now(box, note), "this server was flushed by the tests before"
    assert (note.run_id, note.max_ttl_ms) == (LIFE, 0)


def test_a_key_of_another_type_is_no_note_and_is_replaced_by_the_handshake_only(box: Box) -> None:
    box.client.delete(NOTE)
    box.client.rpush(NOTE, "somebody's")
    for call in (box.acquire, box.renew, box.status):
        call()
        assert box.content(NOTE)[0] == "list"
    assert box.acquire()[7] == ""
    assert is_now(box, handshake(box))


@pytest.mark.parametrize("rule", ["-set", "-get", "-time"])
def test_without_a_permission_nothing_is_noted(box: Box, rule: str) -> None:
    box.client.delete(NOTE)
    with pytest.raises(redis.ResponseError, match=r"can't run this command|ACL failure|NOPERM"):
        box.restricted(rule).handshake()
    assert box.content(NOTE) is None


def test_out_of_memory_nothing_is_noted_and_a_note_is_told(old: Box) -> None:
    before = noted(old)
    old.fill()
    assert handshake(old) == before, "reading needs no memory"
    with pytest.raises(redis.ResponseError, match="used memory > 'maxmemory'"):
        old.handshake(OTHER)
    assert noted(old) == before


@pytest.mark.parametrize("rewrite", ["no", "yes"])
def test_a_master_that_forgets_nothing_is_told_from_one_that_may(new_master: Master, rewrite: str) -> None:
    """`no-appendfsync-on-rewrite yes`: nothing is synced while the file is rewritten."""
    settings = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": rewrite}
    with raw(new_master.url) as client:
        for setting, value in settings.items():
            client.config_set(setting, value)
    connection = run(Endpoint(new_master.url).connect(ConnectOptions(5.0)))
    assert connection.memory_report.memory == ("durable" if rewrite == "no" else "volatile")
    connection.close()
    new_master.kill()  # a server that still writes its first append-only file ends late
