"""Readers on the command line: `rlock run --shared`, status, evict."""

from __future__ import annotations

import sys

import pytest

import rlock

from ..servers import Fleet
from .shell import inside
from .shell import rlock as command


def test_a_command_runs_beside_readers_and_not_beside_a_writer(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client:
        content = client.read_write_lock("x")
        with content.reader:
            ran = command("run", "--shared", "x", "--", "echo", "beside", masters=masters3.urls)
            assert (ran.code, ran.out, ran.err) == (0, "beside\n", "")
            ran = command("run", "-n", "x", "--", "echo", "no", masters=masters3.urls)
            assert ran.code == 75
            assert "'x' is held by readers" in ran.err
            look = ["sh", "-c", "$0 -m rlock status x; $0 -m rlock status y", sys.executable]
            ran = command("run", "-s", "--pass-masters", "--also", "y", "x", *look, masters=masters3.urls)
            assert ran.code == 0
            assert "held by 2 readers" in ran.out
            assert "held by 1 reader" in ran.out
            assert "readers:000" not in inside("status", "x", masters=masters3.urls).out
        with content.writer:
            assert command("run", "-n", "--shared", "x", "--", "echo", "no", masters=masters3.urls).code == 75


def test_status_names_the_readers_and_evict_removes_each(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as one, rlock.Client(masters3.urls) as two:
        readers = [client.read_write_lock("x").reader for client in (one, two)]
        for reader in readers:
            reader.acquire()
        owners = [reader.owner for reader in one.status("x").readers]
        told = inside("status", "x", masters=masters3.urls)
        assert "held by 2 readers: " in told.out
        evicted = inside("evict", "x", "--yes", masters=masters3.urls)
        assert evicted.code == 0
        assert all(owner in told.out and f"evicted {owner}" in evicted.out for owner in owners)
        assert one.status("x").free
        for reader in readers:
            with pytest.raises(rlock.LeaseLostError):
                while True:
                    reader.check()
                    reader.lost.wait(0.1)
            with pytest.raises(rlock.LeaseLostError):
                reader.release()
