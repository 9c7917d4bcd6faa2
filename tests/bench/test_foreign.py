"""The contestants of other languages, on real masters; skipped, with the reason, if they cannot be built."""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from bench.harness import runtimes
from bench.harness.building import Broken
from bench.harness.contestant import Contestant, Failed, Unsupported
from rlock.program.local.embedded import Masters
from rlock.program.local.spawn import free_port

#: A JVM that starts, and warms up, while the machine has other work.
OPEN_S = 90.0
TTL_MS = 10_000
BUILDERS = {"node": runtimes.node, "java": runtimes.java, "go": runtimes.go}
ADAPTERS = {
    "redlock5": "node",
    "redlock4": "node",
    "rlock": "java",
    "fairlock": "java",
    "redlock": "java",
    "redsync": "go",
    "redsync-failfast": "go",
}
JAVA = [adapter for adapter, language in ADAPTERS.items() if language == "java"]
RENEWING = ["redlock5", *JAVA]
OUTLIVES_A_MASTER = ["redlock5", "redsync", "redsync-failfast"]


def command(adapter: str) -> list[str]:
    try:
        return [*BUILDERS[ADAPTERS[adapter]](), adapter]
    except Broken:
        raise
    except Failed as why:
        pytest.skip(str(why))


def opened(adapter: str, urls: list[str], ttl_ms: int = TTL_MS) -> Contestant:
    # Those that poll look often: what is tested is not how long their defaults wait.
    poll_ms = None if adapter in JAVA else 5
    warm = {"warm_ms": 100} if adapter in JAVA else {}
    contestant = Contestant(command(adapter))
    try:
        hello = contestant.ask("open", OPEN_S, masters=urls, ttl_ms=ttl_ms, poll_ms=poll_ms, **warm)
        contestant.hello = hello  # type: ignore[attr-defined]
    except BaseException:
        contestant.close()
        raise
    return contestant


@dataclass(frozen=True)
class Two:
    """Two processes of one contestant, on the same three masters."""

    adapter: str
    one: Contestant
    other: Contestant
    urls: list[str]

    def keys(self) -> set[str]:
        found = {key.decode() for url in self.urls for key in redis.Redis.from_url(url).scan_iter()}
        return found - {"rlock:fleet"}  # the masters are vouched for


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    with Masters(3) as masters:
        yield list(masters.urls)


@pytest.fixture(scope="module", params=ADAPTERS)
def two(request: pytest.FixtureRequest, urls: list[str]) -> Iterator[Two]:
    with opened(request.param, urls) as one, opened(request.param, urls) as other:
        yield Two(request.param, one, other, urls)


def test_it_says_what_it_is(two: Two) -> None:
    hello: dict[str, Any] = two.one.hello  # type: ignore[attr-defined]
    assert hello["name"]
    assert hello["version"][0].isdigit()
    assert hello["runtime"].split()[0] in {"Node", "Java", "Go"}


def test_pairs_take_as_long_as_they_say_and_leave_nothing(two: Two) -> None:
    began = time.monotonic_ns()
    told = two.one.ask("pairs", lock="pairs", count=50)
    assert told["errors"] == []
    assert len(told["ns"]) == 50
    assert min(told["ns"]) > 50_000  # not less than a round trip, whatever the unit
    assert sum(told["ns"]) < time.monotonic_ns() - began
    if two.adapter == "redsync-failfast":
        return  # its release may overtake the acquire on a slow master, which then keeps the key for its ttl
    # Redisson removes a note of each release after it.
    until = time.monotonic() + 5
    while (left := two.keys()) and time.monotonic() < until:
        time.sleep(0.01)
    assert left == set()


def test_its_clock_is_the_one_of_python(two: Two) -> None:
    before = time.monotonic_ns()
    got = two.one.ask("acquire", lock="clock", wait_ms=1000)
    between = time.monotonic_ns()
    told = two.one.ask("release", lock="clock")
    after = time.monotonic_ns()
    assert got["acquired"]
    assert before < got["asked"] < got["entered"] < between < told["began"] < told["ended"] < after


def test_nested_pairs_are_measured_or_refused(two: Two) -> None:
    if two.adapter not in JAVA:
        with pytest.raises(Unsupported, match="not reentrant"):
            two.one.ask("nested", lock="nested", count=5)
        return
    told = two.one.ask("nested", lock="nested", count=5)
    assert (len(told["ns"]), told["errors"]) == (5, [])
    # The outer one was released as well.
    assert two.other.ask("acquire", lock="nested", wait_ms=0)["acquired"]
    two.other.ask("release", lock="nested")


def test_two_processes_exclude_each_other(two: Two) -> None:
    start = time.monotonic_ns() + 100_000_000
    stop = start + 1_500_000_000
    contest = {"lock": "contest", "threads": 2, "hold_us": 2000, "start_ns": start, "stop_ns": stop}
    for contestant in (two.one, two.other):
        contestant.send("contend", **contest)
    told = [contestant.answer() for contestant in (two.one, two.other)]
    assert [each["errors"] for each in told] == [[], []]
    for each in told:
        assert {section[0] for section in each["sections"]} <= {0, 1}
        assert len(each["sections"]) > 2
    sections = sorted((entered, left, asked) for each in told for _, asked, entered, left in each["sections"])
    for earlier, later in itertools.pairwise(sections):
        assert earlier[1] <= later[0]
    assert all(start <= asked < stop and asked <= entered for entered, _, asked in sections)
    assert all(left - entered >= 2_000_000 for entered, left, _ in sections)


def test_who_is_refused_is_told_so_and_who_waits_is_let_in(two: Two) -> None:
    assert two.one.ask("acquire", lock="wanted", wait_ms=1000)["acquired"]
    refused = two.other.ask("acquire", lock="wanted", wait_ms=0)
    assert not refused["acquired"]
    assert refused["entered"] - refused["asked"] < 1_000_000_000
    in_vain = two.other.ask("acquire", lock="wanted", wait_ms=600)
    assert not in_vain["acquired"]
    assert 0.5e9 < in_vain["entered"] - in_vain["asked"] < 3e9
    two.other.send("acquire", lock="wanted", wait_ms=10_000)
    time.sleep(0.2)
    released = two.one.ask("release", lock="wanted")
    waited = two.other.answer()
    assert waited["acquired"]
    assert waited["asked"] < released["began"] < waited["entered"]
    two.other.ask("release", lock="wanted")


def test_loops_have_locks_of_their_own_and_do_not_wait_for_each_other(two: Two) -> None:
    assert two.other.ask("acquire", lock="own1", wait_ms=1000)["acquired"]
    two.one.send("throughput", prefix="own", threads=3, seconds=1.0)
    time.sleep(1.5)
    two.other.ask("release", lock="own1")
    told = two.one.answer()
    assert told["errors"] == []
    # The one that had to wait did one pair, after the time was over.
    assert told["pairs"] > 1
    assert told["ns"] > 1_300_000_000


def test_each_name_is_used_once_and_left_free(two: Two) -> None:
    assert two.one.ask("names", prefix="name", first=7, count=3) == {"done": 3, "errors": []}
    for name in ("name7", "name8", "name9"):
        assert two.other.ask("acquire", lock=name, wait_ms=0)["acquired"]
        two.other.ask("release", lock=name)


def test_usage_is_that_of_the_process(two: Two) -> None:
    began, before = time.monotonic(), two.one.ask("usage")
    two.one.ask("throughput", prefix="usage", threads=2, seconds=0.5)
    after = two.one.ask("usage")
    used = (after["cpu_ns"] - before["cpu_ns"]) / 1e9
    assert 0 < used < 4 * (time.monotonic() - began)
    told = Path(f"/proc/{two.one.pid}/status").read_text().split("VmRSS:")[1].split()[0]
    assert after["rss_bytes"] == pytest.approx(int(told) * 1024, rel=0.3)


def test_a_request_that_it_does_not_know_is_unsupported_and_nothing_worse(two: Two) -> None:
    with pytest.raises(Unsupported, match="no such request: dance"):
        two.one.ask("dance")
    assert len(two.one.ask("pairs", lock="after", count=1)["ns"]) == 1


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_is_held_is_kept_beyond_its_ttl_until_it_is_dropped(urls: list[str], adapter: str) -> None:
    prefix = f"held-{adapter}-"
    with opened(adapter, urls, ttl_ms=1200) as contestant:
        if adapter not in RENEWING:
            with pytest.raises(Unsupported, match="renewal"):
                contestant.ask("hold", prefix=prefix, count=3)
            return
        assert contestant.ask("hold", prefix=prefix, count=3) == {"acquired": 3}
        time.sleep(2.5)
        with redis.Redis.from_url(urls[0]) as master:
            assert master.exists(*(f"{prefix}{i}" for i in range(3))) == 3
            assert contestant.ask("drop", prefix=prefix, count=3) == {"released": 3}
            until = time.monotonic() + 5
            while master.exists(*(f"{prefix}{i}" for i in range(3))) and time.monotonic() < until:
                time.sleep(0.01)
            assert master.exists(*(f"{prefix}{i}" for i in range(3))) == 0


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_it_ends_although_some_wait(urls: list[str], adapter: str) -> None:
    lock = f"waited-for-{adapter}"
    with opened(adapter, urls) as holder:
        assert holder.ask("acquire", lock=lock, wait_ms=1000)["acquired"]
        with opened(adapter, urls) as waiting:
            assert waiting.ask("wait", lock=lock, threads=2) == {"waiting": 2}
            assert len(waiting.ask("pairs", lock=f"{lock}-not", count=1)["ns"]) == 1
            ended = threading.Thread(target=waiting._process.wait)
            ended.start()
            waiting.send("quit")
            ended.join(10)
            assert waiting._process.poll() == 0
        with opened(adapter, urls) as waiting:
            waiting.ask("wait", lock=lock, threads=1)
            holder.ask("release", lock=lock)
            until = time.monotonic() + 15
            while holder.ask("acquire", lock=lock, wait_ms=0)["acquired"] and time.monotonic() < until:
                holder.ask("release", lock=lock)
                time.sleep(0.2)
            assert not holder.ask("acquire", lock=lock, wait_ms=0)["acquired"], "nobody had waited"


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_it_ends_when_nobody_asks_any_more(adapter: str) -> None:
    with subprocess.Popen(command(adapter), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.communicate(timeout=30)[0] == b""
        finally:
            process.kill()
    assert process.returncode == 0


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_it_ends_with_who_asked_although_it_waits_for_a_lock(urls: list[str], adapter: str) -> None:
    lock = f"abandoned-{adapter}"
    with opened(adapter, urls) as holder, opened(adapter, urls) as waiting:
        assert holder.ask("acquire", lock=lock, wait_ms=1000)["acquired"]
        waiting.send("acquire", lock=lock, wait_ms=60_000)
        time.sleep(0.3)
        assert waiting._process.stdin is not None
        waiting._process.stdin.close()
        waiting._process.wait(10)
        holder.ask("release", lock=lock)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_without_masters_it_says_so(adapter: str) -> None:
    nowhere = [f"redis://127.0.0.1:{free_port()}" for _ in range(3)]
    with pytest.raises(Failed, match=r"(?is)^\w+: .*(refused|unable to connect)") as caught:
        opened(adapter, nowhere)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("adapter", OUTLIVES_A_MASTER)
def test_a_minority_of_masters_may_be_away(urls: list[str], adapter: str) -> None:
    some = [urls[0], f"redis://127.0.0.1:{free_port()}", urls[2]]
    with opened(adapter, some) as contestant:
        told = contestant.ask("pairs", lock=f"minority-{adapter}", count=2)
    assert (len(told["ns"]), told["errors"]) == (2, [])


@pytest.mark.parametrize("language", BUILDERS)
def test_a_toolchain_that_is_missing_is_one_clear_reason(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failed, match=r"^(Node.js|Java|Go) is not installed: no \w+ on the PATH$"):
        BUILDERS[language]()


@pytest.mark.parametrize(
    ("language", "environ"),
    [
        ("node", {"npm_config_registry": "http://127.0.0.1:9/", "npm_config_cache": "cache"}),
        ("go", {"GOPROXY": "http://127.0.0.1:9", "GOMODCACHE": "cache", "GOFLAGS": "-modcacherw"}),
    ],
)
def test_a_registry_that_is_away_is_one_reason_told_again_without_another_try(
    language: str, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(next(adapter for adapter, found in ADAPTERS.items() if found == language))
    monkeypatch.setattr(runtimes, "FOLDER", tmp_path / "environments")
    for name, value in environ.items():
        monkeypatch.setenv(name, str(tmp_path / value) if value == "cache" else value)
    with pytest.raises(Failed, match=r"^\w+ failed: .*127\.0\.0\.1") as caught:
        BUILDERS[language]()
    assert not isinstance(caught.value, Broken)
    assert "\n" not in str(caught.value)
    began = time.monotonic()
    with pytest.raises(Failed, match="127") as again:
        BUILDERS[language]()
    assert str(again.value) == str(caught.value)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("language", ["java", "go"])
def test_sources_that_do_not_compile_are_our_fault_and_no_reason_to_skip(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(next(adapter for adapter, found in ADAPTERS.items() if found == language))
    sources = tmp_path / "contestants" / language
    for path in runtimes._files(language):
        copy = sources / path.relative_to(runtimes.SOURCES / language)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
        copy.write_text(text + "\nnonsense\n" if path.suffix in {".java", ".go"} else text, encoding="utf-8")
    monkeypatch.setattr(runtimes, "SOURCES", tmp_path / "contestants")
    monkeypatch.setattr(runtimes, "FOLDER", tmp_path / "environments")
    with pytest.raises(Broken):
        BUILDERS[language]()
