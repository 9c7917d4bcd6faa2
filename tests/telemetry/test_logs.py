"""Log records carry the event, for those who keep their logs as data."""

from __future__ import annotations

import logging

import pytest

from rlock import events

from . import happenings as made


def test_there_is_one_of_each_here() -> None:
    known = [kind for kind in vars(events).values() if isinstance(kind, type)]
    kinds = {kind for kind in known if issubclass(kind, events.Event) and not kind.__subclasses__()}
    assert {type(event) for event in made.ALL} == kinds


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
