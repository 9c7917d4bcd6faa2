"""The drawings of the pages, made of the code's own tables.

    PYTHONPATH=. python docs/tools/site_drawings.py      # writes docs/diagrams/*.svg and the computed tables

A test compares the files with the output of this module.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from site_svg import AMBER, BLUE, GREEN, RED, Picture
from site_tables import write_tables
from site_waiting import acquire, moves, stages

from rlock.model import Code, Fault, FaultKind, LeaseState, Verdict, Vote
from rlock.rules import timing
from rlock.rules.lease import TRANSITIONS
from rlock.rules.quorum import Ballot, quorum

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "docs" / "diagrams"


def lease() -> Picture:
    """The states of a lease, and the events that lead from one to another."""
    arrows: dict[tuple[LeaseState, LeaseState], list[str]] = {}
    final = (LeaseState.LOST, LeaseState.RELEASED)
    for (before, event), after in TRANSITIONS.items():
        if not (before is after and before in final):
            arrows.setdefault((before, after), []).append(event.value)
    held, suspect, lost, released = LeaseState.HELD, LeaseState.SUSPECT, *final
    at = {held: (190, 160), suspect: (530, 160), lost: (360, 290), released: (360, 40)}
    colour = {held: GREEN, suspect: AMBER, lost: RED, released: BLUE}
    paths = {
        (held, held): ("M140 148C60 110 60 210 140 172", 18, 120, "start"),
        (held, suspect): ("M245 152H473", 360, 143, "middle"),
        (suspect, held): ("M473 170H247", 360, 190, "middle"),
        (suspect, suspect): ("M580 148C660 110 660 210 580 172", 585, 118, "start"),
        (held, lost): ("M205 182L310 274", 150, 240, "middle"),
        (suspect, lost): ("M515 182L410 274", 585, 240, "middle"),
        (held, released): ("M205 138L310 54", 225, 84, "middle"),
        (suspect, released): ("M515 138L410 54", 495, 84, "middle"),
        (lost, released): ("M417 292C880 330 880 0 419 40", 690, 290, "start"),
    }
    assert paths.keys() == arrows.keys(), "the table has other arrows than the drawing has places for"
    drawn = Picture("lease", 790, 325, "The states of a lease")
    for state, (x, y) in at.items():
        drawn.box(x - 55, y - 22, 110, 44, fill=colour[state])
        drawn.text(x, y + 5, state.value, size=16)
    for pair, (path, x, y, anchor) in paths.items():
        drawn.line(path)
        drawn.text(x, y, ", ".join(arrows[pair]), anchor=anchor, size=13)
    return drawn


#: The name of each floor, from the ground up, and its content in words; pyproject.toml has the modules.
HOLDS = {
    "words": "errors, events, votes and verdicts, the clock; no logic",
    "rules": "pure functions and tables; the time is a parameter",
    "procedures": "the algorithm as generators; each waits only through its port",
    "client": "connections, calls, subscriptions, holds: the same for both drivers",
    "drivers": "sockets, and the only places that wait: threads or an event loop",
    "public": "the classes and functions that users import",
    "telemetry": "metrics and spans, as observers of events",
    "tools": "the command line; masters in memory and local ones, fixtures",
}


def floors() -> Picture:
    """The floors of the code, with the floors that each one imports."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    rows = [
        (name, layer.split(" : ")) for name, layer in zip(HOLDS, reversed(contract["layers"]), strict=True)
    ]
    place = {module: name for name, modules in rows for module in modules}
    order = [name for name, _ in rows]
    uses = _imports(place)
    drawn = Picture("floors", 760, 30 + 80 * len(rows), "The floors of the code: imports go down only")
    for level, (name, modules) in enumerate(reversed(rows)):
        y = 20 + 80 * level
        drawn.box(10, y, 740, 66, fill=BLUE, opacity=0.06 + 0.045 * level)
        drawn.text(24, y + 38, name, anchor="start", size=17)
        shown = [
            f"{module}/" if (TOP / "rlock" / module).is_dir() else f"{module}.py"
            for module in modules
            if not module.startswith("__")
        ]
        below = [each for each in order if each in uses[name] and each != name]
        used = f"imports {', '.join(below)}" if below else "imports nothing of rlock"
        drawn.text(140, y + 20, f"in rlock/: {', '.join(shown)}", anchor="start", size=13)
        drawn.text(140, y + 38, HOLDS[name], anchor="start", size=12)
        drawn.text(140, y + 56, used, anchor="start", size=12, more='opacity="0.7"')
        if level:
            drawn.line(f"M70 {y - 14}V{y - 1}")
    return drawn


def _imports(place: Mapping[str, str]) -> Mapping[str, set[str]]:
    """The floors that each floor imports; ``place`` gives the floor of each module."""
    uses: dict[str, set[str]] = {name: set() for name in place.values()}
    for path in (TOP / "rlock").rglob("*.py"):
        parts = path.relative_to(TOP / "rlock").with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = parts[: len(parts) - node.level]
            named = [*base, *(node.module or "").split(".")] if node.module else [*base]
            for first in [named[0]] if named else [alias.name for alias in node.names]:
                if first in place and parts[0] in place:
                    uses[place[parts[0]]].add(place[first])
    return uses


def ballot_of(masters: int, granted: int, refused: int) -> Ballot:
    """A round: so many masters granted, so many refused, and the others gave no answer."""
    made = Ballot(masters)
    for master in range(masters):
        if master < granted:
            made.cast(master, Vote(Code.YES))
        elif master < granted + refused:
            made.cast(master, Vote(Code.FOREIGN, "other"))
        else:
            made.cast(master, Vote(Code.FAULT, fault=Fault(FaultKind.TIMEOUT, "")))
    return made


def verdicts(masters: int = 5) -> Picture:
    """The verdict on a round, for each number of masters that grant and refuse."""
    colour = {Verdict.WON: GREEN, Verdict.HELD: BLUE, Verdict.SPLIT: AMBER, Verdict.UNREACHABLE: RED}
    drawn = Picture("verdicts", 760, 400, f"The verdict on a round of {masters} masters")
    drawn.text(
        380,
        24,
        f"{masters} masters, quorum {quorum(masters)}: granted, refused; the rest gave no answer",
        size=15,
    )
    for granted in range(masters + 1):
        drawn.text(118, 82 + 52 * granted, f"{granted} granted", anchor="end", size=13)
        for refused in range(masters + 1 - granted):
            verdict = ballot_of(masters, granted, refused).judge(0.0, 1.0)
            x, y = 128 + 104 * refused, 54 + 52 * granted
            drawn.box(x, y, 98, 46, fill=colour[verdict], opacity=0.25)
            drawn.text(x + 49, y + 28, verdict.value, size=13)
    for refused in range(masters + 1):
        drawn.text(177 + 104 * refused, 388, f"{refused} refused", size=13)
    return drawn


def times(ttl: float = 10.0, max_ttl: float = 10.0) -> Picture:
    """One lease on a line of time: its renewals, and its ends for the holder and for the masters."""
    valid = timing.valid_until(0.0, ttl)
    marks = [
        (0.0, "sent", "the instant before\nthe first byte", 1),
        (
            timing.default_request_timeout(ttl),
            "request time-out",
            "a master that has not\nanswered gave no vote",
            -1,
        ),
        (
            timing.longest_acquisition(max_ttl),
            "longest acquisition",
            "a round that is decided\nlater is not won",
            2,
        ),
        (
            timing.renew_period(ttl),
            "first renewal due",
            f"then, if it fails, every\n{timing.retry_period(ttl):g} s",
            -1,
        ),
        (
            timing.heals_until(valid, max_ttl),
            "heals until",
            "a vote on a master without\nmemory counts before",
            -1,
        ),
        (valid, "valid until", "the hold ends\nfor its holder", 2),
        (ttl, "ttl", "the key ends on the\nfirst master that granted", 1),
        (timing.guard_time(max_ttl), "restart guard", "a master that came back\nhas a vote again", -2),
    ]
    drawn = Picture("times", 900, 430, f"One lease of {ttl:g} s, if nothing renews it")
    scale = 62.0

    def x(at: float) -> float:
        return 110 + at * scale

    drawn.box(x(0), 200, x(valid) - x(0), 26, fill=GREEN, opacity=0.35)
    drawn.text(x(valid) / 2 + 50, 218, "valid: the holder may work", size=13)
    drawn.line(f"M{x(valid):g} 213H{x(11.9):g}")
    for at, name, words, height in marks:
        end = 200 - 55 * height - 10 if height > 0 else 226 - 55 * height + 10
        drawn.line(f"M{x(at):g} {200 if height > 0 else 226}V{end:g}", arrow=False, dashed=True)
        lines = f"{name} {at:.4g} s\n{words}"
        top = end - 16 * lines.count("\n") - 6 if height > 0 else end + 14
        # Centred, the texts of the end of the validity and of the key would overlap.
        anchor = {valid: "end", ttl: "start"}.get(at, "middle")
        drawn.text(x(at), top, lines, anchor=anchor, size=12)
    return drawn


def everything() -> Mapping[str, str]:
    """The text of each file, by its name."""
    drawn = (lease(), floors(), verdicts(), times(), stages(), moves(), acquire())
    return {f"{made.name}.svg": str(made) for made in drawn}


def main() -> None:
    """Write the drawings, and the tables of the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in everything().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    write_tables()
    sys.stdout.write(f"{len(everything())} drawings in {FOLDER}\n")


if __name__ == "__main__":
    main()
