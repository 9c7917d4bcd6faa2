"""Histories made by hand, for tests of the checkers that judge them. Instants are milliseconds."""

from __future__ import annotations

from typing import Any

from rlock.testing.contention.history import History

TTL_MS = 2000
Line = dict[str, Any]


def ms(value: float) -> int:
    """Milliseconds as nanoseconds."""
    return int(value * 1_000_000)


def ask(at: float, lock: str = "x", timeout: float = -1.0) -> Line:
    """Before acquire is called."""
    return {"event": "acquire", "at": ms(at), "thread": "main", "lock": lock, "timeout": timeout}


def got(at: float, token: int, until: float = 0.0, owner: str = "") -> Line:
    """After acquire returned, with validity for a ttl if not ``until``."""
    line: Line = {"event": "acquired", "at": ms(at), "token": token, "hold_count": 1, "owner": owner}
    return {**line, "valid_until": ms(until or at + TTL_MS), "ttl": ms(TTL_MS)}


def look(at: float, until: float) -> Line:
    """The validity, 0 for none."""
    return {"event": "valid", "at": ms(at), "valid_until": ms(until)}


def nested(at: float, token: int, count: int) -> Line:
    """After a nested acquire."""
    return {"event": "acquired", "at": ms(at), "token": token, "hold_count": count}


def release(at: float, until: float) -> list[Line]:
    """The release and its return 1 ms later."""
    return [
        {"event": "release", "at": ms(at), "hold_count": 1, "valid_until": ms(until)},
        {"event": "released", "at": ms(at + 1), "hold_count": 0, "outcome": "released"},
        {"event": "done", "at": ms(at + 1), "outcome": "got"},
    ]


def hold(
    begin: float, end: float, token: int, lock: str = "x", until: float = 0.0, asked: float = -1.0
) -> list[Line]:
    """A hold that was released in time; it asked 1 ms before it began, if not ``asked``."""
    until = until or begin + TTL_MS
    return [ask(begin - 1 if asked < 0 else asked, lock), got(begin, token, until), *release(end, until)]


def shared(lines: list[Line], within: int = 0) -> list[Line]:
    """The same of a reader, which asked while its owner held the writer by the attempt of this number."""
    return [{**lines[0], "shared": True, "within": within}, *lines[1:]]


def end(at: float) -> Line:
    """The process ends by itself."""
    return {"event": "end", "at": ms(at)}


def history(**processes: list[Line]) -> History:
    """The lines of each process. Each ``acquire`` begins the next attempt."""
    made = History()
    for process, lines in processes.items():
        attempt, numbered = 0, []
        for line in lines:
            attempt += line["event"] == "acquire"
            numbered.append({**line, "attempt": attempt})
        made.add(process, numbered)
    return made
