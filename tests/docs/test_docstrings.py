"""The docstrings that the page of Python is made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import rlock
import rlock.asyncio
import rlock.events
import rlock.testing
import rlock.testing.clients

MODULES = (rlock, rlock.asyncio, rlock.events, rlock.testing, rlock.testing.clients)


def public() -> Iterator[tuple[str, object]]:
    """Every public name with a docstring of ours, and the methods and properties of classes."""
    for module in MODULES:
        for name, thing in vars(module).items():
            if name.startswith("_") or not getattr(thing, "__module__", "").startswith("rlock"):
                continue
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                for member, inside in inspect.getmembers(thing):
                    if not member.startswith("_"):
                        yield f"{module.__name__}.{name}.{member}", inside


def fault(docstring: str) -> str:
    """What the page would show wrongly; empty: nothing."""
    parts = [bool(re.match(":(param|raises)", part)) for part in docstring.split("\n\n")]
    if True in parts and not all(parts[parts.index(True) :]):
        return "text behind the fields: the page shows it as part of the last field"
    if re.search(r"^[ ]*Raises `", docstring, re.MULTILINE):
        return "an error in prose: the page has a list for it (:raises ...:)"
    return ""


def test_docstrings_have_their_fields_at_the_end_and_their_errors_in_them() -> None:
    pytest.importorskip("prometheus_client")
    pytest.importorskip("opentelemetry")
    import rlock.telemetry.opentelemetry as traces
    import rlock.telemetry.prometheus as metrics

    found = dict(public()) | {"prometheus.enable": metrics.enable, "opentelemetry.enable": traces.enable}
    assert len(found) > 80
    assert {name: why for name, thing in found.items() if (why := fault(inspect.getdoc(thing) or ""))} == {}


def test_the_methods_of_a_client_and_a_lock_have_docstrings() -> None:
    for kind in (rlock.Client, rlock.RLock, rlock.asyncio.Client, rlock.asyncio.RLock, rlock.LossSignal):
        for name, thing in inspect.getmembers(kind):
            assert name.startswith("_") or inspect.getdoc(thing), f"{kind.__name__}.{name}"
