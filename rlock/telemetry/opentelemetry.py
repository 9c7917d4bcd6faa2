"""Traces and metrics for OpenTelemetry. The API alone is enough; what becomes of them is the SDK's matter.

    import rlock.telemetry.opentelemetry
    rlock.telemetry.opentelemetry.enable()

docs/metrics.md says what they mean.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import Any

try:
    from opentelemetry import metrics as _metrics
    from opentelemetry import trace as _trace
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import TracerProvider
except ImportError as error:
    raise ImportError(
        "rlock.telemetry.opentelemetry needs the package opentelemetry-api (1.25 or newer): "
        "pip install opentelemetry-api (the extra quorum-rlock[opentelemetry])"
    ) from error

from .. import __version__
from ..errors import OptionsError
from ..events import observe
from .instruments import ALL, Instrument, Kind, buckets_of, check_buckets
from .labels import LockLabel, LockLabels, prefix
from .recorder import Recorder
from .spans import Spans

__all__ = ["Enabled", "enable"]

#: Attributes, by the label that means the same.
ATTRIBUTES = {
    "lock": "rlock.label",
    "outcome": "rlock.outcome",
    "master": "rlock.master",
    "kind": "rlock.fault",
    "cause": "rlock.cause",
}


class _Sink:
    """The instruments of one provider. They cannot be taken back, so they are made once."""

    def __init__(self, provider: MeterProvider, buckets: Sequence[float] | None) -> None:
        self.recorder: Recorder | None = None
        meter = provider.get_meter("rlock", __version__)
        self._instruments = {
            instrument.otel: self._make(meter, instrument, buckets_of(instrument, buckets))
            for instrument in ALL
        }

    def _make(self, meter: Meter, instrument: Instrument, buckets: Sequence[float]) -> Any:
        told: dict[str, Any] = {"unit": instrument.unit, "description": instrument.help}
        if instrument.kind is Kind.COUNTER:
            return meter.create_counter(instrument.otel, **told)
        if instrument.kind is Kind.LATEST:
            return meter.create_gauge(instrument.otel, **told)
        if instrument.kind is Kind.LEVEL:
            # Asked for, not told: so it is right in a forked child, too.
            return meter.create_observable_up_down_counter(
                instrument.otel, [self._levels(instrument)], **told
            )
        advice: dict[str, Any] = {}
        if "explicit_bucket_boundaries_advisory" in signature(meter.create_histogram).parameters:
            advice["explicit_bucket_boundaries_advisory"] = buckets
        return meter.create_histogram(instrument.otel, **told, **advice)

    def _levels(self, instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            if self.recorder is not None:
                for lock, value in self.recorder.levels(instrument).items():
                    yield Observation(value, _attributes(instrument, (lock,)))

        return observe

    def add(self, instrument: Instrument, amount: float, *labels: str) -> None:
        self._instruments[instrument.otel].add(amount, _attributes(instrument, labels))

    def note(self, instrument: Instrument, value: float, *labels: str) -> None:
        self._instruments[instrument.otel].record(value, _attributes(instrument, labels))

    def set(self, instrument: Instrument, value: float, *labels: str) -> None:
        if instrument.kind is Kind.LATEST:
            self._instruments[instrument.otel].set(value, _attributes(instrument, labels))


def _attributes(instrument: Instrument, labels: tuple[str, ...]) -> dict[str, str]:
    """Without those that say nothing."""
    return {ATTRIBUTES[name]: value for name, value in zip(instrument.labels, labels, strict=True) if value}


_sinks: weakref.WeakKeyDictionary[MeterProvider, _Sink] = weakref.WeakKeyDictionary()
_enabled: list[Enabled] = []


class Enabled:
    """What `enable` gives: call `disable` to end it."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        lock_label: LockLabel | None,
        buckets: Sequence[float] | None,
    ) -> None:
        check_buckets(buckets)
        self._tracers = tracer_provider or _trace.get_tracer_provider()
        self._meters = meter_provider or _metrics.get_meter_provider()
        for other in _enabled:
            if other._tracers is self._tracers or other._meters is self._meters:
                raise OptionsError(
                    "rlock.telemetry.opentelemetry.enable() was called before with this provider: everything "
                    "would be told twice; call it once, or disable() the first"
                )
        self._spans = Spans(self._tracers.get_tracer("rlock", __version__), LockLabels(lock_label))
        sink = _sinks.get(self._meters)
        if sink is None:
            sink = _sinks[self._meters] = _Sink(self._meters, buckets)
        self._sink = sink
        sink.recorder = Recorder(sink, LockLabels(lock_label))
        self._ends = [observe(sink.recorder), observe(self._spans)]
        _enabled.append(self)

    def disable(self) -> None:
        """Tell no more; spans of what is held end here. Again: nothing."""
        for end in self._ends:
            end()
        if self in _enabled:
            _enabled.remove(self)
            self._sink.recorder = None
            self._spans.close()


def enable(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    lock_label: LockLabel | None = prefix,
    buckets: Sequence[float] | None = None,
) -> Enabled:
    """Trace and measure all clients of this process, those of later included.

    An acquire is a span ``rlock.acquire``, and the time in which the lock is held a span ``rlock.hold``;
    both are children of the span that is current where the lock is acquired. A loss is an event of the
    hold's span, with the status ERROR.

    :param tracer_provider: where spans go; default: the global one.
    :param meter_provider: where measurements go; default: the global one.
    :param lock_label: from a lock's name to the attribute ``rlock.label`` and the end of a span's name.
        Default: what stands in front of the first ``:``. None: neither. The first 100 values are kept
        apart, further ones are ``(other)``. Spans bear the whole name as ``rlock.lock``.
    :param buckets: upper bounds in seconds, for the histograms of times; with a second `enable` on one
        provider the first one's stay.
    :raises OptionsError: one of the providers is in use already, or an argument is wrong.
    """
    return Enabled(tracer_provider, meter_provider, lock_label, buckets)
