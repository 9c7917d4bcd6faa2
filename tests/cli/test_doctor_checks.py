"""The checks of `rlock doctor` alone: facts in, findings out; and the page that explains them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlock.cli.doctor.acl import Permissions, denial
from rlock.cli.doctor.facts import ClockSample, Facts, Fleet, Memory, Target, Timing, Trouble, as_json
from rlock.cli.doctor.findings import CHECKS, Finding, Severity, diagnose
from rlock.cli.doctor.report import closing, report
from rlock.rules.restart_guard import MemoryReport

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
LIFE = "0" * 40
ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

INFO = {
    "redis_version": "7.2.4", "redis_mode": "standalone", "role": "master", "connected_slaves": "0",
    "used_memory": "1000000", "maxmemory": "0", "maxmemory_policy": "noeviction", "aof_enabled": "1",
    "aof_last_write_status": "ok", "aof_last_bgrewrite_status": "ok", "rdb_last_bgsave_status": "ok",
    "connected_clients": "3", "maxclients": "10000", "uptime_in_seconds": "5000",
}  # fmt: skip
CONFIG = {
    "appendfsync": "always", "no-appendfsync-on-rewrite": "no", "save": "", "tcp-keepalive": "300",
    "stop-writes-on-bgsave-error": "yes", "timeout": "0",
}  # fmt: skip


def master(i: int = 0, **changed: Any) -> Facts:
    """A master of a fleet in three zones, set up well. ``info`` and ``config`` are added to what is usual."""
    info = changed.pop("info", {})
    told = None if info is None else {**INFO, "run_id": f"{i}" * 40, **info}
    config = {**CONFIG, **changed.pop("config", {})}
    address = f"10.0.{i}.1"
    url = f"rediss://{address}:6379"
    target = Target(url, tls=True, with_password=True, address=address, addresses=(address,), port=6379)
    first, later = ClockSample(100.0, 5000.0, 0.0005), ClockSample(102.0, 5002.0, 0.0005)
    timing = Timing([0.001] * 7, [0.001] * 2, first, later)
    report = MemoryReport(f"{i}" * 40, note=f"{str(i) * 40} 0 10000")
    memory = Memory(None if told is None else told["aof_enabled"] == "1", report)
    facts = Facts(target, timing=timing, memory=memory, info=told, config=config, other_run_id=f"{i}" * 40)
    for name, value in changed.items():
        part = next(part for part in (facts, target, timing, memory) if name in vars(part))
        setattr(part, name, value)
    return facts


def fleet(*changed: Facts, **options: Any) -> Fleet:
    """Three masters, of which these are the first."""
    return Fleet([*changed, *(master(i) for i in range(len(changed), 3))], **options)


def one(**changed: Any) -> Fleet:
    return fleet(master(**changed))


def clock(offset: float = 0.0, rate: float = 0.0) -> Fleet:
    """One that differs from the clocks of the other two."""
    later = ClockSample(102.0, 5002.0 + offset + 2 * rate, 0.0005)
    return one(clock=ClockSample(100.0, 5000.0 + offset, 0.0005), clock_later=later)


#: For each check: fleets, and what it says of each; None: nothing.
CASES: list[tuple[str, Fleet, Severity | None]] = [
    ("quorum", fleet(*(master(i, trouble=Trouble.TIMEOUT, fault="x") for i in range(2))), ERROR),
    ("quorum", fleet(*(master(i, guarded=3.0) for i in range(2))), ERROR),
    *(("reachable", one(trouble=t, fault="x"), None if t is Trouble.DENIED else ERROR) for t in Trouble),
    *(("login", one(trouble=t, fault="NOAUTH"), ERROR if t is Trouble.DENIED else None) for t in Trouble),
    ("permissions", one(permissions=Permissions(commands=("zadd",))), ERROR),
    ("permissions", one(permissions=Permissions(keys=("~x",), only_of_probe=True)), WARNING),
    ("permissions", one(permissions=Permissions(optional=("info",))), NOTE),
    ("permissions", one(permissions=Permissions(unknown=("eval",))), ERROR),
    ("one-server", one(addresses=("10.0.0.1", "10.0.0.2")), WARNING),
    ("one-server", one(other_run_id="9" * 40), ERROR),
    ("one-server", one(unheard=True), ERROR),
    ("one-server", one(twice=1), WARNING),
    ("latency", one(round_trips=[0.001] * 6 + [0.11]), None),
    ("latency", one(round_trips=[0.001] * 6 + [0.26]), WARNING),
    ("latency", one(round_trips=[0.51] * 2), ERROR),
    ("latency", one(config={"busy-reply-threshold": "499"}), NOTE),
    ("latency", one(config={"busy-reply-threshold": "500"}), None),
    ("latency", one(config={"busy-reply-threshold": "0"}), None),
    ("exposure", one(tls=False), NOTE),
    ("role", one(info={"role": "slave", "master_host": "h", "master_port": "1"}), ERROR),
    ("role", one(info={"connected_slaves": "2"}), NOTE),
    ("role", one(info={"redis_mode": "cluster"}), ERROR),
    ("version", one(info={"redis_version": "6.0.20"}), ERROR),
    ("version", one(info={"dragonfly_version": "df-v1.2.3"}), WARNING),
    ("version", one(info={"mvcc_depth": "0"}), WARNING),
    ("writes", one(info={"loading": "1"}), ERROR),
    ("writes", one(write_fault="OOM command not allowed"), ERROR),
    ("guard", one(guarded=3.0, guard_reason="it is new"), NOTE),
    ("guard", one(guarded=3.0, report=MemoryReport(LIFE), permissions=Permissions(commands=("get",))), None),
    ("guard", one(report=MemoryReport(LIFE, note=f"{LIFE}@9000000 1 0", time_us=5000000)), NOTE),
    ("max-ttl", one(report=MemoryReport(LIFE, note=f"{LIFE} 0 20000")), WARNING),
    ("memory", one(info={"maxmemory": "1200000"}), WARNING),
    ("memory", one(info={"maxmemory": "1300000"}), None),
    ("eviction", one(info={"maxmemory_policy": "allkeys-lru"}), WARNING),
    ("eviction", one(info={"maxmemory_policy": "allkeys-lru", "maxmemory": "9"}), ERROR),
    ("disk", one(info={"aof_last_write_status": "err"}), ERROR),
    ("disk", one(info={"rdb_last_bgsave_status": "err"}, config={"save": "60 1"}), ERROR),
    ("patterns", one(info={"pubsub_patterns": "2"}), WARNING),
    ("durability", one(info={"aof_enabled": "0"}), NOTE),
    ("durability", fleet(*(master(i, info={"aof_enabled": "0"}) for i in range(3))), WARNING),
    ("durability", Fleet([master(info={"aof_enabled": "0"})]), WARNING),
    ("durability", Fleet([master(info={"aof_enabled": "0"}, local=True)]), NOTE),
    ("connections", one(config={"tcp-keepalive": "0"}), WARNING),
    ("connections", one(config={"timeout": "10"}), WARNING),
    ("connections", one(config={"timeout": "11"}), NOTE),
    ("connections", one(info={"connected_clients": "80", "maxclients": "100"}), WARNING),
    ("connections", one(config={"client-output-buffer-limit": "normal 0 0 0 pubsub 33554432 8 60"}), None),
    ("connections", one(config={"client-output-buffer-limit": "normal 0 0 0 pubsub 65536 8 60"}), WARNING),
    ("clock-offset", clock(0.015), None),
    ("clock-offset", clock(0.03), NOTE),
    ("clock-offset", clock(0.11), WARNING),
    ("clock-rate", clock(rate=0.0009), None),
    ("clock-rate", clock(rate=0.003), NOTE),
    ("clock-rate", clock(rate=-0.007), WARNING),
    ("clock-rate", clock(rate=0.02), ERROR),
    ("masters", Fleet([master()]), NOTE),
    ("masters", Fleet([master(0), master(1)]), WARNING),
    ("masters", Fleet([master(i) for i in range(5)]), None),
    ("duplicate", fleet(master(0), master(1, info={"run_id": LIFE}, other_run_id=LIFE)), ERROR),
    ("hosts", fleet(master(0, address="10.0.1.1")), WARNING),
    ("hosts", Fleet([master(i, address="127.0.0.1", local=True) for i in range(3)]), NOTE),
    ("guard-off", fleet(restart_guard=0.0), WARNING),
]


def of(check: str, found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.check == check]


@pytest.mark.parametrize(
    ("check", "seen", "severity"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_a_check_says_what_is_wrong_and_how_bad(check: str, seen: Fleet, severity: Severity | None) -> None:
    found = of(check, diagnose(seen))
    assert {finding.severity for finding in found} == ({severity} if severity else set())
    for finding in found:
        assert all((finding.what, finding.why, finding.action))
        assert "None" not in f"{finding.what} {finding.why} {finding.action}"
        assert finding.severity.rank >= CHECKS[check].worst.rank, "worse than the page says"


@pytest.mark.parametrize(
    "reply",
    ["unknown command 'EVAL'", "Garnet Lua scripting is disabled.", "Could not find scripting engine 'lua'"],
)
def test_a_server_without_lua_is_recognised(reply: str) -> None:
    assert denial(Exception(f"ERR {reply}")) == "unknown"
    assert denial(Exception("ERR wrong number of arguments for 'hset' command")) is None


def test_every_check_was_seen_at_its_worst() -> None:
    worst = {
        check: min((s for c, _, s in CASES if c == check and s), key=lambda s: s.rank) for check, *_ in CASES
    }
    assert worst == {check.name: check.worst for check in CHECKS.values()}


def test_of_masters_that_are_well_nothing_is_said() -> None:
    assert diagnose(fleet()) == []
    assert closing(fleet(), []) == "3 of 3 masters answered, quorum 2: 0 errors, 0 warnings, 0 notes"


def test_nothing_is_made_of_what_a_master_does_not_tell() -> None:
    bare = [Facts(Target(f"rediss://m{i}", tls=True, with_password=True)) for i in range(3)]
    assert diagnose(Fleet(bare)) == []
    for facts in bare:
        assert as_json(facts, Fleet(bare))["version"] is None
    assert len(list(report(Fleet(bare), []))) > 3


@pytest.mark.parametrize("trouble", [each for each in Trouble if each is not Trouble.CUT_SHORT])
def test_of_a_master_that_gave_no_answer_only_that_is_said(trouble: Trouble) -> None:
    dead = Facts(Target("rediss://10.0.0.1:6379", tls=True), trouble=trouble, fault="it is gone")
    found = [finding for finding in diagnose(fleet(dead)) if finding.master]
    assert [finding.check for finding in found] in (["reachable"], ["login"])


def test_the_page_explains_checks_that_there_are() -> None:
    named = re.findall(r"^- \*\*([\w-]+):\*\*", PAGE, re.MULTILINE)
    assert len(named) > 10
    assert {*named} <= {*CHECKS}
