"""What a run found, as one JSON document: scenarios, their cases, and in each a row for each contestant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


class BadResults(Exception):
    """The document is not what a run writes. One line says why."""


@dataclass
class Row:
    """One contestant in one case. `error` is ``Kind: text``; there may be figures beside it."""

    figures: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    error: str | None = None


@dataclass
class Case:
    """One setting, and what each contestant did in it."""

    case: dict[str, Any]
    rows: dict[str, Row] = field(default_factory=dict)

    def compare(self, figure: str, against: Iterable[str]) -> None:
        """Note each row's ratio of this figure to that of some contestants, where both have it."""
        for key in against:
            base = self.rows[key].figures.get(figure) if key in self.rows else None
            if not base:
                continue
            for row in self.rows.values():
                if figure in row.figures:
                    row.ratios[key] = row.figures[figure] / base


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
    scenarios: list[Scenario] = field(default_factory=list)

    def find(self, scenario: str, **case: Any) -> Iterator[Case]:
        """The cases of a scenario that have these settings."""
        for found in self.scenarios:
            for one in found.cases if found.name == scenario else ():
                if all(one.case.get(key) == value for key, value in case.items()):
                    yield one

    def to_json(self) -> str:
        """The document. A figure that is NaN or infinite is a defect of its scenario: ValueError."""
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """The run that a document tells of; `BadResults` for anything else."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise BadResults(f"not JSON: {error}") from None
        try:
            document = _mapping(document)
            scenarios = [_scenario(told) for told in document.pop("scenarios")]
            return cls(scenarios=scenarios, **document)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadResults(f"not the results of a run: {type(error).__name__}: {error}") from None

    def write(self, path: Path) -> None:
        """Write the document, and make the folder for it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        """The run whose document is in a file; `BadResults` if there is none."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadResults(f"cannot read {path}: {error}") from None
        return cls.from_json(text)


def _mapping(told: Any) -> dict[str, Any]:
    if not isinstance(told, Mapping):
        raise TypeError(f"{str(told)[:40]!r} is no object")
    return dict(told)


def _scenario(told: Any) -> Scenario:
    scenario = _mapping(told)
    cases = [
        Case(_mapping(case["case"]), {key: Row(**row) for key, row in _mapping(case["rows"]).items()})
        for case in scenario.pop("cases")
    ]
    return Scenario(cases=cases, **scenario)
