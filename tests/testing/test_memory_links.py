"""Links to masters in memory: a descriptor for those who poll, a callback for those who do not."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from rlock._driver.links import Call, DialError, pack
from rlock.rules import scripts
from rlock.testing import MemoryMasters
from rlock.testing.memory import link as links
from rlock.testing.memory.link import MemoryLink

from .test_memory import descriptors


def heard(link: MemoryLink) -> list[Any]:
    """All that has arrived, by way of the descriptor as the roster does it."""
    found = []
    while select.select([link.fileno], [], [], 0)[0]:
        link.fetch()
        while (reply := link.reader.gets()) is not False:
            found.append(reply)
    return found


@pytest.mark.usefixtures("any_bell")
def test_a_descriptor_is_readable_while_something_has_arrived() -> None:
    master = MemoryMasters()[0]
    link, publisher = master.dial(Call(1.0, subscriber=True)), master.dial(Call(1.0))
    assert heard(link) == []
    link.send(pack(("SUBSCRIBE", "rlock:{x}:released", "other")))
    assert heard(link) == [[b"subscribe", b"rlock:{x}:released", 1], [b"subscribe", b"other", 1]]
    publisher.send(pack(scripts.acquire("x", "a:1", 9_000).by_sha()))
    publisher.send(pack(scripts.release("x", "a:1").by_source()))
    assert [reply[0] for reply in heard(publisher)] == [1, 1]
    assert heard(link) == [[b"message", b"rlock:{x}:released", b"a:1"]]
    assert heard(link) == []
    master.down()
    assert select.select([link.fileno], [], [], 0)[0]
    link.fetch()
    assert link.ended
    with pytest.raises(OSError, match="reset"):
        link.send(pack(("PING",)))
    with pytest.raises(DialError, match="refused"):
        master.dial(Call(1.0))
    for one in (link, publisher):
        one.close()
        one.close()


def test_who_asks_for_arrivals_gets_them_without_a_descriptor() -> None:
    before = descriptors()
    link = MemoryMasters()[0].dial(Call(1.0))
    arrivals: list[str] = []
    link.on_arrival = lambda: arrivals.append("!")
    for _ in range(2):
        link.send(pack(scripts.acquire("x", "a:1", 9_000).by_sha()))
    assert arrivals == ["!"], "once, until what has arrived was read"
    assert [link.reader.gets()[0] for _ in range(2)] == [1, 1]
    assert link.reader.gets() is False
    link.send(pack(scripts.release("x", "a:1").by_sha()))
    assert arrivals == ["!", "!"]
    assert descriptors() == before
    link.fetch()
    assert link.answered
    assert not link.ended
    link.close()


def test_a_command_that_no_client_sends_is_an_error_reply() -> None:
    link = MemoryMasters()[0].dial(Call(1.0))
    link.send(pack(("FLUSHALL",)) + pack(("EVALSHA", "0" * 40, "0")))
    assert ["no FLUSHALL" in str(link.reader.gets()), "no scripts" in str(link.reader.gets())] == [True, True]
    link.close()


def test_a_paused_master_does_later_what_it_was_sent_also_by_those_who_have_gone() -> None:
    master = MemoryMasters()[0]
    first, second = master.dial(Call(1.0)), master.dial(Call(1.0))
    master.pause()
    first.send(pack(scripts.acquire("x", "a:1", 9_000).by_sha()))
    first.close()
    second.send(pack(scripts.acquire("x", "b:1", 9_000).by_sha()))
    assert heard(second) == []
    with pytest.raises(DialError, match="pause"):
        master.dial(Call(1.0))
    master.resume()
    ((code, holder, *_),) = heard(second)
    assert (code, holder) == (-1, b"a:1"), "a server has what was sent to it, whoever has hung up since"
    second.close()


def test_who_subscribed_and_has_gone_is_not_counted_as_a_listener() -> None:
    master = MemoryMasters()[0]
    gone, publisher = master.dial(Call(1.0, subscriber=True)), master.dial(Call(1.0))
    publisher.send(pack(scripts.acquire("x", "a:1", 9_000).by_sha()))
    master.pause()
    gone.send(pack(("SUBSCRIBE", "rlock:{x}:released")))
    gone.close()
    master.resume()
    publisher.send(pack(scripts.release("x", "a:1").by_sha()))
    assert heard(publisher)[-1] == [1, b"a:1", 0, 0, 0]
    publisher.close()


def test_a_link_is_not_closed_while_a_publisher_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor would be closed, or somebody else's by then."""
    master = MemoryMasters()[0]
    publisher, link = master.dial(Call(1.0)), master.dial(Call(1.0, subscriber=True))
    publisher.send(pack(scripts.acquire("x", "a:1", 9_000).by_sha()))
    link.send(pack(("SUBSCRIBE", "rlock:{x}:released")))
    assert len(heard(link)) == 1
    ringing, go_on = threading.Event(), threading.Event()
    ring: Callable[[links.Bell], None] = links.Bell.ring

    def slow(bell: links.Bell) -> None:
        ringing.set()
        go_on.wait(10)
        ring(bell)

    def publish() -> None:
        publisher.send(pack(scripts.release("x", "a:1").by_sha()))

    monkeypatch.setattr(links.Bell, "ring", slow)
    publishing, closing = threading.Thread(target=publish), threading.Thread(target=link.close)
    publishing.start()
    assert ringing.wait(10)
    closing.start()
    time.sleep(0.1)
    assert closing.is_alive()
    go_on.set()
    publishing.join(10)
    closing.join(10)
    assert not closing.is_alive()
    publisher.close()
