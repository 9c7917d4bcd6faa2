"""`python -m bench`, from the words on its command line to the results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.harness.results import Results

from ..servers import descendants, gone

TOP = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("server")


def run(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench", *words],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_quick_run_of_two_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    words = [
        "--quick",
        "--only",
        "pair",
        "contention",
        "--contestants",
        "rlock",
        "redis-py",
        "--json",
        str(path),
    ]
    process = run(*words)
    out, err = process.communicate(timeout=100)
    results = Results.read(path)
    assert results.quick
    assert 1 < results.took_s < 60
    assert set(results.versions) == {"rlock", "redis-py"}
    assert {"cpu", "cores", "kernel", "python", "server", "load_before"} <= set(results.machine)
    pair, contention = results.scenarios
    assert [sorted(case.rows) for case in pair.cases] == [["redis-py", "rlock"], ["rlock"]], err
    for case in pair.cases:
        for row in case.rows.values():
            assert row.error is None
            low, high, rounds = row.intervals["p50_us"]
            assert 20 < low <= row.figures["p50_us"] <= high
            assert rounds > 1
            assert row.figures["count"] > 50
    assert pair.cases[0].rows["redis-py"].ratios["rlock"] > 0
    for case in contention.cases:
        ours = case.rows["rlock"].figures
        assert [row.error for row in case.rows.values()] == [None] * len(case.rows)
        assert ours["overlaps"] == ours["errors"] == 0
        assert ours["changes_per_s"] > 0
        # One acquire and one release at least, but for what the ends of a short window cut off.
        assert 1 < ours["scripts_per_section"] / case.case["masters"] < 8
    # It prints the tables and the demands; a quick run judges only those that count events.
    assert pair.title in out
    assert "to redis-py's Lock" in out
    assert process.returncode == 0
    assert "exit status 0: " in err
    assert "pair " in err


def test_nothing_is_left_when_it_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    words = ["--quick", "--only", "wide_area", "--contestants", "rlock", "--json", str(path)]
    process = run(*words)
    # Five masters, five proxies, a holder and a waiter.
    until = time.monotonic() + 30
    while len(started := descendants(process.pid)) < 12:
        assert time.monotonic() < until, "it does not start what it needs"
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # the impatient
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in err + out
    assert not path.exists()
    # One that was being started in that very moment ends with its stdin, once it has come to read it.
    assert all(gone(pid, 5.0) for pid in started), "left over"
