"""docs/metrics.md, the dashboard and the alert rules: they run and agree. And observers, and log records."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlock
from rlock import events
from rlock.events import Acquired, Lost, NotAcquired, Released
from rlock.telemetry.instruments import ALL, Kind
from rlock.testing import memory_client
from rlock.testing.local.spawn import free_port

from ..cli.shell import done
from ..docs.pages import DOCS, PYTHON, TOP, block
from ..interrupts import every_line
from . import happenings as made
from .happenings import Ledger

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
    found = done([PYTHON, "-c", text], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(TOP)})
    said = found.out + found.err
    assert found.code == 0, said
    assert [said.count(part) for part in shown] == [1] * len(shown), said


ALERTS = DOCS / "prometheus" / "alerts.yml"
ALERTS_TEST = DOCS / "prometheus" / "alerts_test.yml"
FLEET = {"redlock_master_clock_offset_seconds"}  # metrics that only `rlock exporter` serves

MISSING = "no promtool: Debian's package prometheus has it"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason=MISSING)


def queries() -> Iterator[str]:
    """Each query of the dashboard, with Grafana's variables filled in as for "All"."""
    dashboard = json.loads((DOCS / "grafana" / "rlock.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            expression = re.sub(r"\$(__rate_interval|__range|job|lock)\b", "1m", target["expr"])
            assert "$" not in expression, f"{panel['title']}: a variable that Grafana does not fill in"
            yield expression


def samples() -> set[str]:
    """The names of the samples that our metrics have."""
    names = set()
    for instrument in ALL:
        if instrument.kind is Kind.HISTOGRAM:
            names |= {f"{instrument.name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            names.add(instrument.name)
    return names


def named(text: str) -> set[str]:
    return set(re.findall(r"\bredlock_\w+", text))


def test_every_metric_is_on_the_dashboard_and_nothing_asks_for_one_that_is_not_there() -> None:
    shown = set[str]().union(*map(named, queries()))
    alerts = named(ALERTS.read_text(encoding="utf-8"))
    assert alerts
    assert shown | alerts <= samples() | FLEET
    for instrument in ALL:
        assert any(name.startswith(instrument.name) for name in shown), f"{instrument.name} is shown nowhere"


@needs_promtool
def test_each_alert_fires_when_it_should_and_keeps_quiet_when_it_should_not() -> None:
    yaml = pytest.importorskip("yaml")
    rules = {rule["alert"] for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]}
    fired: set[str] = set()
    quiet: set[str] = set()
    for test in yaml.safe_load(ALERTS_TEST.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            (fired if case["exp_alerts"] else quiet).add(case["alertname"])
    assert fired == rules
    # The clock's is quiet about a leap, the quorum's about one master that is down.
    assert quiet == rules
    promtool("test", "rules", ALERTS_TEST.name)


@needs_promtool
def test_the_configuration_of_the_page_is_one(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(block("metrics.md", "prometheus.yml"))
    shutil.copy(ALERTS, tmp_path)
    assert "SUCCESS: 1 rule files found" in promtool("check", "config", "prometheus.yml", folder=tmp_path)


def promtool(*arguments: str, folder: Path = ALERTS.parent) -> str:
    found = done(["promtool", *arguments], cwd=folder)
    assert found.code == 0, found
    return found.out


def test_ctrl_c_before_any_line_of_a_pair_leaves_one_end(ledger: Ledger) -> None:
    with memory_client(3, ttl=5.0) as client:
        lock = client.lock("a")
        for tracer in every_line("lock.py", "engine.py", "hold_table.py", "acquire.py", "withdraw.py"):
            ledger.clear()
            with tracer:
                lock.acquire()
                lock.release()
            while lock.hold_count:
                lock.release()
            told = [event.event for event in ledger.of(Acquired, NotAcquired, Lost, Released)]
            assert told in ([], ["not_acquired"], ["acquired", "released"]), tracer.where


def test_a_loss_is_told_behind_its_acquire_however_long_that_takes(ledger: Ledger) -> None:
    end = events.observe(lambda event: time.sleep(0.6) if isinstance(event, Acquired) else None)
    with memory_client(3) as client:
        lock = client.lock("job", ttl=0.2, renew=False, on_lost=lambda _: None)
        lock.acquire()
        assert not lock.is_owned()
        with pytest.raises(rlock.LeaseLostError):
            lock.release()
    end()
    assert [event.event for event in ledger.of(Acquired, Lost, Released)] == ["acquired", "lost"]


def test_there_is_one_of_each_here() -> None:
    known = [kind for kind in vars(events).values() if isinstance(kind, type)]
    kinds = {kind for kind in known if issubclass(kind, events.Event) and not kind.__subclasses__()}
    assert {type(event) for event in made.ALL} == kinds


@pytest.mark.parametrize("event", [e for e in made.ALL if e.level], ids=lambda event: event.event)
def test_a_record_has_the_fields_of_its_event(event: events.Event, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "rlock"):
        events.emit(event)
    (record,) = caplog.records
    assert record.levelno == event.level
    assert record.getMessage() == str(event)
    for name, value in events.fields(event).items():
        assert getattr(record, name) == value
