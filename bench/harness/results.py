"""The results of a run as one JSON document: scenarios, their cases, and one line for each contestant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .figures import estimate, ratios
from .verdicts import Verdict

#: Significant digits in the document. Noise is in the third one already.
DIGITS = 5
#: How deep the rows are in the document; each is on a line of its own.
ROW_DEPTH = 6


@dataclass
class Row:
    """One contestant in one case. `error` is ``Kind: text``; there may be figures beside it."""

    figures: dict[str, float] = field(default_factory=dict)
    #: Of a figure: the lowest and the highest value that it may have in truth, and the number of rounds
    #: behind that; 0: unknown.
    intervals: dict[str, tuple[float, float, int]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    #: In which way this contestant was measured under other conditions than the rows beside it.
    differs: str = ""
    #: The values of each round. The verdicts need them; the document leaves them out.
    by_round: dict[str, list[float]] = field(default_factory=dict, compare=False)

    @classmethod
    def of_rounds(cls, by_round: Mapping[str, Sequence[float]], error: str | None = None) -> Row:
        """A row whose figures are the medians of these rounds."""
        row = cls(error=error)
        for name, values in by_round.items():
            row.add(name, values)
        return row

    def add(self, name: str, values: Sequence[float]) -> None:
        """A figure by its rounds; nothing if there were none."""
        if (found := estimate(values)) is not None:
            self.by_round[name] = list(values)
            self.figures[name] = found.value
            self.intervals[name] = (found.low, found.high, found.rounds)


@dataclass
class Case:
    case: dict[str, Any]
    rows: dict[str, Row] = field(default_factory=dict)

    def compare(self, figure: str, against: Iterable[str]) -> None:
        """Note each row's ratio of this figure to some contestants, round by round where both have rounds."""
        for key in against:
            base = self.rows.get(key)
            if base is None or not base.figures.get(figure):
                continue
            for row in self.rows.values():
                if figure in row.figures:
                    found = estimate(ratios_of(row, base, figure))
                    row.ratios[key] = found.value if found else row.figures[figure] / base.figures[figure]


def ratios_of(row: Row, base: Row, figure: str) -> list[float]:
    """The ratio in each round; empty where one of the two failed at times, so that its rounds are others."""
    if row.error or base.error:
        return []
    return ratios(row.by_round.get(figure, []), base.by_round.get(figure, []))


@dataclass
class Scenario:
    """One question, asked in several cases."""

    name: str
    title: str
    question: str
    cases: list[Case] = field(default_factory=list)


@dataclass
class Results:
    machine: dict[str, Any]
    versions: dict[str, str]
    began: str
    took_s: float
    quick: bool
    verdicts: list[Verdict] = field(default_factory=list)
    scenarios: list[Scenario] = field(default_factory=list)

    def find(self, scenario: str, **case: Any) -> Iterator[Case]:
        """The cases of a scenario that have these settings."""
        for found in self.scenarios:
            for one in found.cases if found.name == scenario else ():
                if all(one.case.get(key) == value for key, value in case.items()):
                    yield one

    def to_json(self) -> str:
        """The document. A figure that is NaN or infinite is a defect: ValueError."""
        return f"{_lines(_stored(asdict(self)))}\n"

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        """The run whose document is in a file; ValueError if there is none."""
        try:
            found = cls(**json.loads(path.read_text(encoding="utf-8")))
            found.verdicts = [Verdict(**each) for each in found.verdicts]  # type: ignore[arg-type]
            found.scenarios = [Scenario(**each) for each in found.scenarios]  # type: ignore[arg-type]
            for scenario in found.scenarios:
                scenario.cases = [Case(**each) for each in scenario.cases]  # type: ignore[arg-type]
                for case in scenario.cases:
                    case.rows = {key: Row(**row) for key, row in case.rows.items()}  # type: ignore[arg-type]
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} has no results of a run: {error}") from None
        return found


def _stored(value: Any) -> Any:
    """The fields of rows that say something, and figures with the digits that do."""
    if isinstance(value, float):
        # Without the test a NaN would become a number, and its defect would not be seen.
        return float(f"{value:.{DIGITS}g}") if abs(value) < 1e15 else value
    if isinstance(value, dict):
        row = "by_round" in value
        kept = {key: one for key, one in value.items() if not row or (one and key != "by_round")}
        return {key: _stored(one) for key, one in kept.items()}
    return [_stored(one) for one in value] if isinstance(value, list | tuple) else value


def _lines(value: Any, depth: int = 0) -> str:
    if depth == ROW_DEPTH or not value or not isinstance(value, dict | list):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, list):
        parts, ends = [_lines(one, depth + 1) for one in value], "[]"
    else:
        parts = [f"{json.dumps(key)}: {_lines(one, depth + 1)}" for key, one in value.items()]
        ends = "{}"
    return "\n".join([ends[0], ",\n".join(parts), ends[1]])
