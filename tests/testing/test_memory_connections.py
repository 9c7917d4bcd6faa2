"""Connections to masters in memory: a descriptor for a thread that polls, a callback for an event loop."""

from __future__ import annotations

import select
from typing import Any

import pytest

from rlock._client.handshake import ConnectError, ConnectOptions
from rlock.rules import commands
from rlock.rules.command_templates import encode
from rlock.rules.keys import OWN
from rlock.testing import MemoryMasters
from rlock.testing.memory.connection import MemoryConnection


def heard(connection: MemoryConnection) -> list[Any]:
    """All that has arrived, by way of the descriptor as the roster does it."""
    found = []
    while select.select([connection.fileno], [], [], 0)[0]:
        connection.fetch()
        while (reply := connection.reader.gets()) is not False:
            found.append(reply)
    return found


@pytest.mark.usefixtures("any_bell")
def test_a_descriptor_is_readable_while_something_has_arrived() -> None:
    master = MemoryMasters()[0]
    connection, publisher = (
        master.connect(ConnectOptions(1.0, subscriber=True)),
        master.connect(ConnectOptions(1.0)),
    )
    assert heard(connection) == []
    connection.send(encode(("SUBSCRIBE", "rlock:{x}:released", "other")))
    assert heard(connection) == [[b"subscribe", b"rlock:{x}:released", 1], [b"subscribe", b"other", 1]]
    publisher.send(commands.acquire("x", "a:1", 9_000).packed)
    publisher.send(encode(commands.free(OWN, "x", "a:1").by_source()))
    assert [reply[0] for reply in heard(publisher)] == [1, 1]
    assert heard(connection) == [[b"message", b"rlock:{x}:released", b"a:1"]]
    assert heard(connection) == []
    master.down()
    assert select.select([connection.fileno], [], [], 0)[0]
    connection.fetch()
    assert connection.ended
    with pytest.raises(OSError, match="reset"):
        connection.send(encode(("PING",)))
    with pytest.raises(ConnectError, match="refused"):
        master.connect(ConnectOptions(1.0))
    for one in (connection, publisher):
        one.close()
        one.close()
