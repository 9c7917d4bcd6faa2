"""Log records carry the event, for those who keep their logs as data."""

from __future__ import annotations

import json
import logging
import logging.config
from io import StringIO
from typing import Any

import pytest

from rlock import events

from . import happenings as made


def kinds() -> list[type[events.Event]]:
    known = [
        kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)
    ]
    return sorted((kind for kind in known if not kind.__subclasses__()), key=lambda kind: kind.__name__)


def test_there_is_one_of_each_here() -> None:
    assert {type(event) for event in made.ALL} == set(kinds())


@pytest.mark.parametrize("event", [e for e in made.ALL if e.level], ids=lambda event: event.event)
def test_a_record_carries_the_fields_of_its_event(
    event: events.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "rlock"):
        events.emit(event)
    (record,) = caplog.records
    assert record.levelno == event.level
    assert record.getMessage() == str(event)
    for name, value in events.fields(event).items():
        assert getattr(record, name) == value


@pytest.fixture
def json_log() -> Any:
    """The lines that the configuration of the page writes."""
    pytest.importorskip("pythonjsonlogger")
    from ..docs.pages import block

    stream = StringIO()
    before = (log := logging.getLogger("rlock")).handlers[:], log.level, log.propagate
    configuration: dict[str, Any] = {}
    exec(
        block("metrics.md", "logging_json.py").replace("logging.config.dictConfig(", "configuration.update("),
        {
            "logging": logging,
            "configuration": configuration,
            "__builtins__": __builtins__,
        },
    )
    configuration["handlers"]["stderr"]["stream"] = stream
    root = logging.getLogger()
    kept = root.handlers[:], root.level
    logging.config.dictConfig(configuration)
    yield stream
    log.handlers[:], log.level, log.propagate = before
    root.handlers[:], root.level = kept


@pytest.mark.parametrize("event", [e for e in made.ALL if e.level], ids=lambda event: event.event)
def test_a_line_of_json_has_the_fields(event: events.Event, json_log: StringIO) -> None:
    events.emit(event)
    line = json.loads(json_log.getvalue())
    assert events.fields(event).items() <= line.items()
    assert line["level"] == logging.getLevelName(event.level)
    assert line["logger"] == "rlock"
