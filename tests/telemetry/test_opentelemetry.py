"""What OpenTelemetry is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in the group test-all")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import rlock
import rlock.asyncio
from rlock import events
from rlock.telemetry import opentelemetry
from rlock.telemetry.instruments import ALL

from ..servers import Fleet
from . import happenings as made


@dataclass
class Told:
    tracers: TracerProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    handle: opentelemetry.Enabled

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def metrics(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        (scope,) = data.resource_metrics[0].scope_metrics
        return {metric.name: list(metric.data.data_points) for metric in scope.metrics}


@pytest.fixture
def told() -> Iterator[Told]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    yield (made := Told(tracers, exporter, reader, opentelemetry.enable(tracers, meters)))
    made.handle.disable()
    tracers.shutdown()
    meters.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_an_acquire_and_a_hold_are_spans_of_their_real_times(told: Told) -> None:
    began = time.time_ns()
    events.emit(made.acquired(waited=0.25, queued=True, handed=True, fair=True))
    assert [span.name for span in told.spans] == ["rlock.acquire orders"]
    events.emit(made.released(held=1.5, took=0.0))
    acquire, hold = told.spans
    assert acquire.start_time is not None and acquire.end_time is not None  # noqa: PT018
    assert acquire.end_time - acquire.start_time == 250_000_000
    assert acquire.start_time < began <= acquire.end_time
    assert attributes(acquire) == {
        "rlock.lock": "orders:42",
        "rlock.owner": "o1",
        "rlock.fair": True,
        "rlock.outcome": "acquired",
        "rlock.votes": 2,
        "rlock.masters": 3,
        "rlock.handed": True,
        "rlock.queued": True,
    }
    assert hold.name == "rlock.hold orders"
    assert hold.start_time == acquire.end_time
    assert attributes(hold).items() >= {"rlock.owner": "o1", "rlock.confirmed": True}.items()
    assert {span.status.status_code for span in told.spans} == {StatusCode.UNSET}


def test_a_loss_is_an_event_of_its_hold_and_an_error(told: Told) -> None:
    events.emit(made.acquired())
    events.emit(events.RenewalFailed("orders:42", "o1", remaining=6.5))
    events.emit(events.RenewalStopped("orders:42", "o1", cause="max_hold", reason="too long"))
    events.emit(made.lost(cause="max_hold"))
    hold = told.spans[-1]
    names = [event.name for event in hold.events]
    assert names == ["rlock.renewal_failed", "rlock.renewal_stopped", "rlock.lost"]
    assert dict(hold.events[0].attributes or {}) == {"rlock.remaining": 6.5}
    assert dict(hold.events[2].attributes or {})["rlock.cause"] == "max_hold"
    assert hold.status.status_code is StatusCode.ERROR
    assert attributes(hold)["error.type"] == "max_hold"


def test_every_metric_has_a_value_after_one_of_each_event(told: Told) -> None:
    for event in made.ALL:
        events.emit(event)
    metrics = told.metrics()
    assert set(metrics) == {instrument.otel for instrument in ALL}
    outcomes = {point.attributes["rlock.outcome"]: point for point in metrics["rlock.acquire.duration"]}
    assert {outcome: point.count for outcome, point in outcomes.items()} == {"acquired": 2, "busy": 1}
    assert outcomes["acquired"].attributes["rlock.label"] == "orders"
    assert 0.0025 in outcomes["acquired"].explicit_bounds, "buckets of seconds, not of milliseconds"
    (loss,) = metrics["rlock.losses"]
    assert dict(loss.attributes) == {"rlock.label": "orders", "rlock.cause": "expired"}
    assert [point.value for point in metrics["rlock.master.up"]] == [1]
    assert [point.value for point in metrics["rlock.renewal.failures"]] == [2]
    assert [point.value for point in metrics["rlock.held"]] == [0]


def test_a_lock_held_by_tasks_makes_spans_under_theirs(told: Told, masters3: Fleet) -> None:
    tracer = told.tracers.get_tracer("page")

    async def page(client: rlock.asyncio.Client, number: int) -> None:
        with tracer.start_as_current_span(f"page {number}"):
            async with client.lock("orders:42"):
                await asyncio.sleep(0.02)

    async def pages() -> None:
        async with rlock.asyncio.Client(masters3.urls) as client:
            await asyncio.gather(*(page(client, number) for number in range(3)))

    asyncio.run(pages())
    traces: dict[int, list[str]] = {}
    for span in told.spans:
        assert span.context is not None
        traces.setdefault(span.context.trace_id, []).append(span.name.partition(" ")[0])
    assert sorted(map(sorted, traces.values())) == [["page", "rlock.acquire", "rlock.hold"]] * 3
