"""`rlock doctor` on masters that were set up wrongly: each fault is found by name, on the right master."""

from __future__ import annotations

import socketserver
import threading
from typing import Any

import pytest

import rlock
from rlock.rules.keys import NOTE

from ..lock.conftest import eventually
from ..servers import Fleet, left, raw
from .doctoring import doctor, label
from .doctoring import good as good  # a fixture
from .shell import inside


def tell(url: str, *words: str) -> Any:
    with raw(url) as admin:
        return admin.execute_command(*words)


def test_three_masters_that_are_set_up_well_have_no_finding_and_nothing_is_changed(good: Fleet) -> None:
    def state() -> list[Any]:
        return [(sorted(raw(url).keys()), raw(url).config_get("*"), raw(url).get(NOTE)) for url in good.urls]

    with rlock.Client(good.urls) as client, client.lock("orders:42"):
        assert eventually(lambda: all("orders:42" in left(url) for url in good.urls))
        assert eventually(lambda: all(str(raw(url).get(NOTE)).endswith(" 10000") for url in good.urls))
        before = state()
        seen = doctor(good.urls, "--name", "orders:*", measure=1)
        assert (seen.code, seen.bad()) == (0, [])
        assert doctor(good.urls, "--name", "orders:42").bad() == []
        assert state() == before, "keys with their fencing tokens, settings, the note"
    assert {finding["check"] for finding in seen.findings} <= {"hosts"}
    assert [master["master"] for master in seen.masters] == [label(url) for url in good.urls]
    for master in seen.masters:
        assert master["durable"] is True
        assert abs(master["clock_rate"]) < 0.01
        assert master["latency"] < 0.5


#: What is wrong with a master: the command that does it, the finding, and a command that doctor prints.
FAULTS = {
    "evicts": ("CONFIG SET maxmemory 1gb maxmemory-policy volatile-ttl", "eviction", "error", ""),
    "keeps nothing": ("CONFIG SET appendonly no", "durability", "note", "CONFIG SET appendonly yes"),
    "a replica": ("REPLICAOF 127.0.0.1 {port}", "role", "error", "REPLICAOF NO ONE"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_master_is_found_and_the_printed_command_mends_it(good: Fleet, fault: str) -> None:
    command, check, severity, remedy = FAULTS[fault]
    tell(good.urls[1], *command.format(port=good.urls[0].rpartition(":")[2]).split())
    if check == "role":
        assert eventually(lambda: raw(good.urls[0]).info("replication")["connected_slaves"] == 1, 20)
    seen = doctor(good.urls)
    (found,) = [each for each in seen.of(check) if each["master"] == label(good.urls[1])]
    assert found["severity"] == severity
    assert seen.code == (1 if severity == "error" else 0)
    assert remedy in (*found["commands"], "")
    for printed in found["commands"]:
        if printed != "CONFIG REWRITE":  # the file of a test's master
            tell(good.urls[1], *printed.replace("'", "").split(" ", 3))
    assert eventually(lambda: raw(good.urls[1]).info("persistence")["aof_rewrite_in_progress"] == 0)
    assert not doctor(good.urls).of(check)


class Web(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(65536)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_what_is_no_master_and_what_is_silent_are_told_by_what_they_do(good: Fleet) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Web) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        web = f"redis://127.0.0.1:{server.server_address[1]}"
        good[2].pause()
        seen = doctor([good.urls[0], web, good.urls[2]], request_timeout="0.5")
        server.shutdown()
    told = {each["master"]: each for each in seen.of("reachable")}
    for url, what, action in (
        (web, "another protocol", "correct the port"),
        (label(good.urls[2]), "no answer in time", "firewall"),
    ):
        assert what in told[url]["what"]
        assert action in told[url]["action"]


def test_warnings_pass_unless_strict_and_fewer_than_a_quorum_are_exit_status_69(good: Fleet) -> None:
    def shell(urls: list[str], *words: str) -> tuple[int, str]:
        found = inside("doctor", "--measure", "0", *words, masters=urls, RLOCK_REQUEST_TIMEOUT="1")
        return found.code, found.out

    assert shell(good.urls, "--strict")[0] == 0
    tell(good.urls[1], "CONFIG", "SET", "tcp-keepalive", "0")
    assert shell(good.urls)[0] == 0
    assert shell(good.urls, "--strict")[0] == 1
    code, out = shell([good.urls[0], "redis://127.0.0.1:1", "redis://127.0.0.1:2"])
    assert code == 69
    assert "1 of 3 masters can be reached, 2 are needed" in out
    assert out.splitlines()[-1].startswith("1 of 3 masters answered, quorum 2: 3 errors")
