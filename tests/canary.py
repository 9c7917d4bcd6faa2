"""The password of the suite's masters, and a search for it in everything that a run shows.

Searched are the log records, the captured output and the tracebacks of each test; what its child processes
print, the pages that it reads, each `RLockError` that is made and each error that it expects, with all errors
behind it. A test that shows the password fails. A test that prints the URL of a master on purpose takes
masters with a password of its own: ``fresh_masters(1, password="shown")``.
"""

from __future__ import annotations

import http.client
import logging
import subprocess
import traceback
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import pytest
from click.testing import CliRunner

from rlock.errors import RLockError

from .servers import PASSWORD

_PARTS = PASSWORD[:12], PASSWORD[-12:]  # a part of it is as bad: a message may be cut
_ALL = 1  # less than any level that a test sets: records below the level of the run are searched and dropped
_leaks: list[str] = []
logging.getLogger("rlock").setLevel(_ALL)


def look(text: object, where: str) -> None:
    """Search a text for the password; if it has it, the running test fails."""
    told = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    for part in _PARTS:
        if (at := told.find(part)) >= 0:
            around = told[max(0, at - 300) : at + 300].replace(PASSWORD, "<the password>")
            _leaks.append(f"the password of the test masters is in {where}:\n{around}")
            return


def leaks() -> list[str]:
    """What was found since the last call."""
    found, _leaks[:] = _leaks[:], []
    return found


def _look_into_record(record: logging.LogRecord) -> bool:
    traced = traceback.format_exception(*record.exc_info) if record.exc_info and record.exc_info[0] else ""
    look(f"{record.getMessage()} {vars(record)} {''.join(traced)}", f"a record of the log {record.name}")
    log = logging.getLogger(record.name)
    return log.level != _ALL or record.levelno >= logging.root.level


def _looking(kind: type[Any], method: str, look_at: Callable[..., None]) -> None:
    """Have ``look_at(result, *arguments)`` called after each call of this method."""
    original = getattr(kind, method)

    @wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        look_at(result, *args)
        return result

    setattr(kind, method, call)


def _look_into_error(error: BaseException | None, *_: object) -> None:
    look("".join(traceback.format_exception(error)) if error else "", "an error")


def _make(kind: type[RLockError], *args: Any, **options: Any) -> RLockError:
    look((args, options), f"the arguments of {kind.__name__}")
    return super(RLockError, kind).__new__(kind, *args)


def pytest_configure() -> None:
    for name in ("rlock", "asyncio"):
        logging.getLogger(name).addFilter(_look_into_record)
    _looking(subprocess.Popen, "communicate", lambda found, *_: look("".join(map(str, found)), "some output"))
    _looking(CliRunner, "invoke", lambda result, *_: look(result.output, "the output of a command"))
    _looking(http.client.HTTPResponse, "read", lambda page, *_: look(page, "a page"))
    _looking(type(pytest.raises(Exception)), "__exit__", lambda *words: _look_into_error(words[3]))
    RLockError.__new__ = _make  # type: ignore[method-assign, assignment]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    for heading, text in report.sections:
        if heading.endswith(call.when):
            look(text, heading)
    if call.excinfo is not None and not isinstance(call.excinfo.value, AssertionError):  # it may compare URLs
        _look_into_error(call.excinfo.value)
    found = "\n\n".join(leaks())
    if found and report.failed:
        report.sections.append(("Leaks", found))
    elif found:
        report.outcome, report.longrepr = "failed", found
    return report
