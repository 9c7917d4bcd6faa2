"""The tables of docs/metrics.md: metrics, and the fields of log records."""

from __future__ import annotations

import dataclasses
import logging

from rlock import events
from rlock.telemetry.instruments import ALL


def metrics() -> str:
    """The metrics, as Prometheus and as OpenTelemetry name them."""
    rows = ["| Prometheus, with its labels | OpenTelemetry | |", "|---|---|---|"]
    for each in ALL:
        labels = f"{{{','.join(each.labels)}}}" if each.labels else ""
        rows.append(f"| `{each.name}{labels}` | `{each.otel}` | {each.help} |")
    return "\n".join([*rows, ""])


def records() -> str:
    """The log records, the worst first, with their fields."""
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type)]
    made: list[events.Event] = []
    for kind in kinds:
        if issubclass(kind, events.Event) and not kind.__subclasses__():
            needed = [f for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
            made.append(kind(**{field.name: "" for field in needed}))
    rows = ["| `event` | Level | Fields |", "|---|---|---|"]
    for event in sorted(made, key=lambda event: (-event.level, event.event)):
        if event.level:
            fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(event))
            rows.append(f"| `{event.event}` | {logging.getLevelName(event.level)} | {fields} |")
    return "\n".join([*rows, ""])
