"""The rows of the table of bad neighbours: what others saw, and what log, doctor and metrics said."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlock.telemetry import instruments
from rlock.telemetry.instruments import Instrument
from tests.cli.shell import inside

HEAD = ["fault", "slower", "pause", "MB", "noticed", "warnings", "log", "doctor", "metrics"]
#: Gauges and counters of a master, by what the table calls them.
WORDS = {instruments.UP: "up", instruments.HEARD: "heard", instruments.SLOW: "slow"}
LONGEST = 70


@dataclass(frozen=True)
class Row:
    """One fault; of several runs the worst."""

    fault: str
    slower: float
    pause: float
    grew_mb: float
    noticed: float  # seconds after it began; -1: no line of the log is due
    warnings: int
    log: str
    doctor: str
    metrics: str

    def worse(self, other: Row) -> Row:
        figures = ("slower", "pause", "grew_mb", "noticed", "warnings")
        return replace(self, **{name: max(getattr(self, name), getattr(other, name)) for name in figures})

    @property
    def cells(self) -> list[str]:
        noticed = f"{self.noticed:.1f} s" if self.noticed >= 0 else "-"
        figures = [f"{self.slower:.2f}", f"{self.pause:.2f} s", f"{self.grew_mb:.1f}", noticed]
        return [self.fault, *figures, str(self.warnings), *map(_short, (self.log, self.doctor)), self.metrics]


def _short(text: str) -> str:
    """The begin of a text, without the addresses of this run."""
    text = re.sub(r"(127\.0\.0\.1|localhost):\d+", "HOST:PORT", text)
    text = re.sub(r"\b[0-9a-f]{12,}\b", "…", text).replace("|", "/").replace("`", "'")
    return f"`{text[:LONGEST]}`" if text else "-"


class Log(logging.Handler):
    """The warnings that name a master, with their instants, until it is closed."""

    def __init__(self, label: str) -> None:
        super().__init__(logging.WARNING)
        self.label, self.lines = label, list[tuple[float, str]]()
        logging.getLogger("rlock").addHandler(self)

    def close(self) -> None:
        logging.getLogger("rlock").removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if self.label and self.label in text:
            self.lines.append((time.monotonic(), text))


class Gauges:
    """A sink that keeps what is measured of masters."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], float] = {}
        self._kinds: Counter[tuple[str, str]] = Counter()

    def add(self, instrument: Instrument, amount: float, *labels: str) -> None:
        if instrument is instruments.FAILURES:
            self._kinds[labels[0], labels[1]] += int(amount)
        elif instrument in WORDS and amount:
            self._values[labels[0], WORDS[instrument]] = 1

    def note(self, *_: Any) -> None: ...

    def set(self, instrument: Instrument, value: float, *labels: str) -> None:
        if instrument in WORDS:
            self._values[labels[0], WORDS[instrument]] = value

    def of(self, master: str) -> str:
        """The gauges of a master, and the kinds of its failures."""
        values = [f"{word} {value:.0f}" for (of, word), value in list(self._values.items()) if of == master]
        kinds = [kind for (of, kind), _ in self._kinds.most_common() if of == master]
        return "; ".join([*sorted(values), *([f"failures: {', '.join(kinds)}"] if kinds else [])]) or "-"


def asked_doctor(urls: Sequence[str], master: str) -> str:
    """The first finding of `rlock doctor` about a master that is an error or a warning."""
    found = inside("doctor", "--json", "--measure", "0", masters=urls, RLOCK_RESTART_GUARD="0")
    findings = [each for each in json.loads(found.out)["findings"] if each["master"] == master]
    bad = [each["what"] for each in findings if each["severity"] in ("error", "warning")]
    return bad[0].replace(master, "").strip() if bad else ""
