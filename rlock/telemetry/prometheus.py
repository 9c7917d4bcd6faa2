"""Metrics for Prometheus, by prometheus_client.

    import rlock.telemetry.prometheus
    rlock.telemetry.prometheus.enable()

docs/metrics.md says what they mean; docs/grafana and docs/prometheus hold a dashboard and alert rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
except ImportError as error:
    raise ImportError(
        "rlock.telemetry.prometheus needs the package prometheus-client (0.19 or newer): "
        "pip install prometheus-client (the extra quorum-rlock[prometheus])"
    ) from error

from ..errors import OptionsError
from ..events import observe
from .instruments import ALL, Instrument, Kind, buckets_of, check_buckets
from .labels import LockLabel, LockLabels, prefix
from .recorder import Recorder

__all__ = ["Enabled", "enable"]

#: With several processes (PROMETHEUS_MULTIPROC_DIR) and `mark_process_dead`, ended ones count no more. What
#: one process holds adds up; of a master the youngest news is right, for all processes look at one fleet.
_MODES: dict[Kind, Any] = {Kind.LATEST: "livemostrecent", Kind.LEVEL: "livesum"}


class _Sink:
    """The metrics of one registry."""

    def __init__(self, buckets: Sequence[float] | None) -> None:
        self.metrics = {instrument.name: _make(instrument, buckets) for instrument in ALL}
        # `labels()` of the library costs a mutex and as much time as the measurement itself.
        self._children: dict[tuple[str, ...], Any] = {}

    def _child(self, instrument: Instrument, labels: tuple[str, ...]) -> Any:
        key = (instrument.name, *labels)
        child = self._children.get(key)
        if child is None:
            metric = self.metrics[instrument.name]
            child = self._children[key] = metric.labels(*labels) if labels else metric
        return child

    def add(self, instrument: Instrument, amount: float, *labels: str) -> None:
        self._child(instrument, labels).inc(amount)

    def note(self, instrument: Instrument, value: float, *labels: str) -> None:
        self._child(instrument, labels).observe(value)

    def set(self, instrument: Instrument, value: float, *labels: str) -> None:
        self._child(instrument, labels).set(value)


def _make(instrument: Instrument, buckets: Sequence[float] | None) -> Counter | Gauge | Histogram:
    name, told, labels = instrument.name, instrument.help, instrument.labels
    if instrument.kind is Kind.COUNTER:
        return Counter(name, told, labels, registry=None)
    if instrument.kind is Kind.HISTOGRAM:
        return Histogram(name, told, labels, registry=None, buckets=buckets_of(instrument, buckets))
    return Gauge(name, told, labels, registry=None, multiprocess_mode=_MODES[instrument.kind])


class Enabled:
    """What `enable` gives: call `disable` to end it."""

    def __init__(self, registry: CollectorRegistry, lock_label: LockLabel | None, buckets: Any) -> None:
        check_buckets(buckets)
        labels = LockLabels(lock_label)
        self._registry = registry
        sink = _Sink(buckets)
        self._registered: list[Any] = []
        for metric in sink.metrics.values():
            try:
                registry.register(metric)
            except ValueError:
                self._unregister()
                raise OptionsError(
                    f"this registry has a metric {metric._name!r} already: call rlock.telemetry.prometheus."
                    f"enable() once, or give it a registry of its own (registry=CollectorRegistry())"
                ) from None
            self._registered.append(metric)
        self._recorder = Recorder(sink, labels)
        self._end = observe(self._recorder)

    def disable(self) -> None:
        """Count no more, and take the metrics out of the registry. Again: nothing."""
        self._end()
        self._unregister()

    def _unregister(self) -> None:
        while self._registered:
            self._registry.unregister(self._registered.pop())


def enable(
    registry: CollectorRegistry = REGISTRY,
    *,
    lock_label: LockLabel | None = prefix,
    buckets: Sequence[float] | None = None,
) -> Enabled:
    """Measure all clients of this process, those of later and those of forked children included.

    Call it once, when the program starts, before clients are used: what happened earlier is not counted.

    :param registry: where the metrics are registered, prometheus_client's own by default.
    :param lock_label: from a lock's name to the value of the label ``lock``. Default: what stands in front
        of the first ``:``, so ``orders:42`` counts as ``orders``. None: all locks together. The first 100
        values are kept apart, further ones are ``(other)``.
    :param buckets: upper bounds in seconds, for the histograms of times.
    :raises OptionsError: the registry has these metrics already, or an argument is wrong.
    """
    return Enabled(registry, lock_label, buckets)
