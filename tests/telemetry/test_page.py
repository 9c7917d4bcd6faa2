"""docs/metrics.md: its examples run, its links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlock.testing.local.spawn import free_port

from ..docs.pages import DOCS, TOP, block

PAGE = DOCS / "metrics.md"


def test_every_alert_is_in_the_table_and_has_its_runbook() -> None:
    yaml = pytest.importorskip("yaml")
    (group,) = yaml.safe_load((DOCS / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    alerts = [rule["alert"] for rule in group["rules"]]
    assert re.findall(r"^\| (Rlock\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == alerts
    anchors = {rule["annotations"]["runbook"].partition("#")[2] for rule in group["rules"]}
    runbook = re.findall(r"^### (.+)$", (DOCS / "operations.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert anchors <= {title.lower().replace(" ", "-") for title in runbook}
    for rule in group["rules"]:
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}


EMIT = "from rlock import events\nevents.emit(events.{})\n"
BUSY = EMIT.format("NotAcquired('tenant/7/orders', False, 0.5, 'busy')")
LOST = EMIT.format("Lost('orders:42', 'o', 3.0, 'expired', 'late')")
SHOWN = "import prometheus_client; print(prometheus_client.generate_latest().decode())"
ASKED = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:{}/metrics').read().decode())"
SPANS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
"""
BUCKET = 'redlock_acquire_duration_seconds_bucket{{le="{}",lock="orders",outcome="busy"}} {}'
PORT = str(free_port())
#: Of each program of the page: the package that it needs, what runs before it and after it, what is shown.
PROGRAMS: dict[str, tuple[str, str, str, list[str]]] = {
    "serve.py": (
        "prometheus_client", "", ASKED.format(PORT), ["# TYPE redlock_acquire_duration_seconds histogram"]
    ),
    "labels.py": (
        "prometheus_client", "", BUSY + SHOWN, [BUCKET.format("0.1", "0.0"), BUCKET.format("1.0", "1.0")]
    ),
    "tracing.py": ("opentelemetry.sdk", SPANS, BUSY, ['"name": "rlock.acquire ']),
    "logging_json.py": (
        "pythonjsonlogger", "", LOST, ['"lock": "orders:42"', '"cause": "expired"', '"level": "ERROR"']
    ),
    "observer.py": ("rlock", "", (LOST + "stop()\n") * 2, ["lost orders:42 after 3.0 s: expired"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_page_shows_what_happens(name: str, tmp_path: Path) -> None:
    package, before, after, shown = PROGRAMS[name]
    pytest.importorskip(package)
    text = before + block("metrics.md", name, *(("9100", PORT) if name == "serve.py" else ())) + after
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said = done.stdout + done.stderr
    assert [said.count(part) for part in shown] == [1] * len(shown), said
