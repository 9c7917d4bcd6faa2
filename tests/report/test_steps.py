"""Where the time of a pair goes: what is seen of a thread, and a short run on real masters."""

from __future__ import annotations

import signal
import time

import pytest

from bench.harness import sampling
from bench.harness.field import field
from bench.scenarios import steps


def spinning(until: float) -> int:
    count = 0
    while time.monotonic() < until:
        count += 1
    return count


def outer(seconds: float) -> None:
    spinning(time.monotonic() + seconds)
    time.sleep(seconds)


def test_samples_are_where_the_time_is() -> None:
    with sampling.Sampler(seed=1) as sampler:
        outer(0.5)
    seen = {"spinning": 0, "outer": 0}
    for names, _, count in sampler.stacks("report/test_steps:outer"):
        seen[names[0].rpartition(":")[2] if names else "outer"] += count
    # Half of it computing, half of it asleep; a busy machine takes from both.
    assert sum(seen.values()) > 100
    assert 0.25 <= seen["spinning"] / sum(seen.values()) <= 0.75


def test_sampling_leaves_no_timer_and_no_handler_behind() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), sampling.Sampler():
        1 / 0  # noqa: B018
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize(
    ("file", "function", "line", "step"),
    [
        ("/x/rlock/_sync/connection.py", "send", "self.socket.send(packed)", "send"),
        ("/x/rlock/_sync/connections.py", "poll", "found = self._poll.poll(wait_ms)", "wait"),
        ("/x/rlock/_sync/connection.py", "receive", "read = self._receive.recv(65536)", "read"),
        ("/x/redis/_parsers/hiredis.py", "read_from_socket", "self._sock.recv_into(buffer)", "wait"),
        ("/x/redis/_parsers/hiredis.py", "read_response", "response = self._reader.gets()", "read"),
        ("/x/rlock/rules/commands.py", "acquire", "return Command(name)", "build"),
        ("/x/rlock/rules/replies.py", "decode_one", "return Vote(code)", "read"),
        ("/x/rlock/rules/quorum.py", "cast", "self.votes[master] = vote", "count"),
        ("/x/rlock/rules/holds.py", "remove", "del self.holds[key]", "rest"),
        ("/x/rlock/lock.py", "acquire", "return True", "rest"),
        ("/x/elsewhere.py", "anything", "pass", "rest"),
    ],
)
def test_a_line_belongs_to_a_step(
    file: str, function: str, line: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("linecache.getline", lambda name, number: line if name == file else "")
    made: dict[str, object] = {}
    exec(compile(f"def {function}(): pass", file, "exec"), made)
    code = made[function].__code__  # type: ignore[attr-defined]
    assert sampling.step([(code, 1)]) == step


def test_what_a_tuple_or_a_library_does_belongs_to_who_called_it() -> None:
    places = {}
    for file in ("<string>", "/x/rlock/rules/quorum.py"):
        made: dict[str, object] = {}
        exec(compile("def inner(): pass", file, "exec"), made)
        places[file] = made["inner"].__code__  # type: ignore[attr-defined]
    assert sampling.step([(places["<string>"], 1), (places["/x/rlock/rules/quorum.py"], 1)]) == "count"


@pytest.mark.timing
def test_the_steps_of_a_pair_add_up_to_it() -> None:
    began = time.monotonic()
    found, stacks = steps.run(field(["rlock", "floor-all", "redis-py"]), 6.0, True)
    assert time.monotonic() - began < 40
    assert {*found.rows} == {"rlock", "floor-all"}
    for key, row in found.rows.items():
        assert row.error is None, row.error
        parts = {step: row.figures[f"{step}_us"] for step in steps.STEPS}
        assert sum(parts.values()) == pytest.approx(row.figures["p50_us"])
        # Whatever else it does, it sends and it waits.
        assert parts["send"] > 0
        assert parts["wait"] > 0
        assert row.figures["user_cpu_us"] > 0
        assert row.figures["masters_cpu_us"] > 0
        assert sum(stacks.rows[key].figures.values()) == row.figures["samples"]
    assert any(
        "RLock.acquire" in stack and stack.endswith("[send]") for stack in stacks.rows["rlock"].figures
    )
    # A lock does more than the floor beside sending and waiting.
    assert found.rows["rlock"].figures["rest_us"] > 0


def test_a_contestant_that_cannot_run_is_an_error_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "WORKER", steps.ROOT / "bench" / "no-such-worker.py")
    found, _ = steps.run(field(["rlock"]), 2.0, True)
    assert found.rows["rlock"].error is not None
    assert "no-such-worker" in found.rows["rlock"].error


def test_without_anybody_to_look_at_there_is_no_case() -> None:
    assert list(steps.run(field(["redis-py"]), 2.0, True)) == []
