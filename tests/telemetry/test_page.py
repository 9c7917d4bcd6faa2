"""docs/metrics.md: its tables are those of the code, its examples run, its links lead somewhere."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlock.telemetry.instruments import ALL, Instrument

from ..docs.pages import DOCS, TOP, block
from . import happenings as made

PAGE = DOCS / "metrics.md"
KINDS = {"counter": "counter", "histogram": "histogram", "gauge": "gauge", "gauge of this process": "gauge"}


def metrics_row(instrument: Instrument) -> str:
    labels = ", ".join(f"`{label}`" for label in instrument.labels)
    return f"| `{instrument.name}` | {KINDS[instrument.kind.value]} | {labels} | {instrument.help} |"


def otel_row(instrument: Instrument) -> str:
    return f"| `{instrument.otel}` | `{instrument.name}` | `{instrument.unit}` |"


def record_rows() -> Iterator[str]:
    for event in sorted(made.ALL, key=lambda event: (-event.level, event.event)):
        if event.level:
            told = ", ".join(f"`{field.name}`" for field in dataclasses.fields(event))
            yield f"| `{event.event}` | {logging.getLevelName(event.level)} | {told} |"


TABLES = {
    "metrics": [metrics_row(instrument) for instrument in ALL],
    "otel": [otel_row(instrument) for instrument in ALL],
    "records": list(record_rows()),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_those_of_the_code(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- table: {name} -->\n\n.*\n\|[-|]+\|\n((?:\|.*\n)*)<!-- end -->", text)
    assert found is not None
    assert found.group(1).splitlines() == TABLES[name]


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


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": str(TOP)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True
    )


def test_a_program_that_serves_its_metrics(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    from rlock.testing.local.spawn import free_port

    port = free_port()
    program = block("metrics.md", "serve.py", "9100", str(port)) + (
        "import urllib.request\n"
        f"print(urllib.request.urlopen('http://127.0.0.1:{port}/metrics').read().decode())"
    )
    assert "# TYPE redlock_acquire_duration_seconds histogram" in run(program, tmp_path).stdout


def test_a_label_of_the_users(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    program = block("metrics.md", "labels.py") + (
        "from rlock import events\n"
        "import prometheus_client\n"
        "events.emit(events.NotAcquired('tenant/7/orders', False, 0.5, 'busy'))\n"
        "print(prometheus_client.generate_latest().decode())"
    )
    said = run(program, tmp_path).stdout
    assert 'redlock_acquire_duration_seconds_bucket{le="0.1",lock="orders",outcome="busy"} 0.0' in said
    assert 'redlock_acquire_duration_seconds_bucket{le="1.0",lock="orders",outcome="busy"} 1.0' in said


def test_spans_of_a_program(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    before = (
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))\n"
    )
    after = "from rlock import events\nevents.emit(events.NotAcquired('orders:42', False, 0.5, 'busy'))\n"
    said = run(before + block("metrics.md", "tracing.py") + after, tmp_path).stdout
    assert '"name": "rlock.acquire orders"' in said


def test_a_line_of_json_has_the_fields_of_its_event(tmp_path: Path) -> None:
    pytest.importorskip("pythonjsonlogger")
    after = "from rlock import events\nevents.emit(events.Lost('orders:42', 'o', 3.0, 'expired', 'late'))\n"
    line = json.loads(run(block("metrics.md", "logging_json.py") + after, tmp_path).stderr)
    assert line.items() >= {"lock": "orders:42", "owner": "o", "held": 3.0, "cause": "expired"}.items()
    assert (line["level"], line["logger"]) == ("ERROR", "rlock")


def test_an_observer_of_ones_own(tmp_path: Path) -> None:
    after = "events.emit(events.Lost('orders:42', 'o', 3.0, 'expired', 'late'))\nstop()\n" * 2
    said = run(block("metrics.md", "observer.py") + after, tmp_path).stdout
    assert said.splitlines() == ["lost orders:42 after 3.0 s: expired"]
