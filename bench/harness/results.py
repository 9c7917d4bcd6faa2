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


class BadResultsError(Exception):
    """A run does not write such a document. One line says why."""


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
    """One setting, and the row of each contestant in it."""

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
    """One run."""

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
        """The document, one line a row. A figure that is NaN or infinite is a defect: ValueError."""
        head = {key: value for key, value in vars(self).items() if key not in ("verdicts", "scenarios")}
        lines = [f"{_line(head)[:-1]},", '"verdicts": [']
        lines += _separated(_line(asdict(verdict)) for verdict in self.verdicts)
        lines += ["],", '"scenarios": [']
        for i, scenario in enumerate(self.scenarios):
            named = {"name": scenario.name, "title": scenario.title, "question": scenario.question}
            lines.append(f'{"," if i else ""}{_line(named)[:-1]}, "cases": [')
            for j, case in enumerate(scenario.cases):
                lines.append(f'{"," if j else ""}{{"case": {_line(case.case)}, "rows": {{')
                rows = case.rows.items()
                lines += _separated(f"{json.dumps(key)}: {_line(_stored(row))}" for key, row in rows)
                lines.append("}}")
            lines.append("]}")
        return "\n".join([*lines, "]}"]) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """The run that a document describes; `BadResultsError` for anything else."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise BadResultsError(f"not JSON: {error}") from None
        try:
            document = _mapping(document)
            scenarios = [_scenario(scenario) for scenario in document.pop("scenarios")]
            verdicts = [Verdict(**verdict) for verdict in document.pop("verdicts")]
            return cls(scenarios=scenarios, verdicts=verdicts, **document)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadResultsError(f"not the results of a run: {type(error).__name__}: {error}") from None

    def write(self, path: Path) -> None:
        """Write the document, and make the folder for it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        """The run whose document is in a file; `BadResultsError` if there is none."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadResultsError(f"cannot read {path}: {error}") from None
        return cls.from_json(text)


def _line(value: Any) -> str:
    return json.dumps(_rounded(value), allow_nan=False)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        # Without the test a NaN would become a number, and its defect would not be seen.
        return float(f"{value:.{DIGITS}g}") if abs(value) < 1e15 else value
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, (list, tuple)) else value


def _separated(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [f"{line}," for line in found[:-1]] + found[-1:]


def _stored(row: Row) -> dict[str, Any]:
    """The fields of a row that say something."""
    return {key: value for key, value in vars(row).items() if value and key != "by_round"}


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{str(value)[:40]!r} is no object")
    return dict(value)


def _scenario(document: Any) -> Scenario:
    scenario = _mapping(document)
    cases = [
        Case(_mapping(case["case"]), {key: _row(row) for key, row in _mapping(case["rows"]).items()})
        for case in scenario.pop("cases")
    ]
    return Scenario(cases=cases, **scenario)


def _row(document: Any) -> Row:
    row = Row(**_mapping(document))
    row.intervals = {name: (low, high, rounds) for name, (low, high, rounds) in row.intervals.items()}
    return row
