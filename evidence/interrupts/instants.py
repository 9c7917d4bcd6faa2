"""Ctrl-C, or foreign code by the garbage collector, at the n-th instant of a call.

CPython handles a signal at the begin of a Python function, behind a call of a C function, and at a jump
backwards. It does not do so between any two instructions: nothing comes between a mutex's __enter__ and its
`with` block. So the tracer only makes the signal pending in front of such an instruction.
"""

from __future__ import annotations

import _thread
import dis
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rlock

ROOT = str(Path(rlock.__file__).parent) + os.sep
#: They play the servers here. A real server goes on when a client is interrupted.
MASTERS = ROOT + "testing" + os.sep


class _Arm:
    """``-ARM`` makes SIGINT pending. It is no call, so the tracer itself does not handle the signal."""

    __neg__ = staticmethod(partial(_thread.interrupt_main, signal.SIGINT))


ARM: Any = _Arm()

#: In front of these the signal is made pending. The first ones are calls.
_CALLS = {code for name, code in dis.opmap.items() if name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX")}
_JUMPS = {code for name, code in dis.opmap.items() if "BACKWARD" in name and "NO_INTERRUPT" not in name}


@cache
def _instants_of(code: CodeType) -> dict[int, bool]:
    """The instructions at which a signal may be handled; whether each is a call."""
    found = [each for each in dis.get_instructions(code) if each.opcode in _CALLS | _JUMPS]
    return {each.offset: each.opcode in _CALLS for each in found}


class Stuck(BaseException):
    """The operation did not end."""


def is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(ROOT) and not code.co_filename.startswith(MASTERS)


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def place(frame: FrameType | None) -> str:
    for each in _callers(frame):
        if is_ours(each.f_code):
            return f"{each.f_code.co_filename.removeprefix(ROOT)}:{each.f_lineno} {each.f_code.co_name}"
    return "outside"


class Instant:
    """The ``at``-th instant of one run, and where that was."""

    def __init__(self, at: int, work: Callable[[], object] | None = None) -> None:
        self.at = at
        self.work = work  # that the signal handler, or the collector, does; None: it raises KeyboardInterrupt
        self.passed = 0  # instants, or collections
        self.place = ""  # "": the operation has fewer instants
        self._held_back = False
        # It is about to call: the begin of the function is no other instant.
        self._calling: FrameType | None = None

    @property
    def reached(self) -> bool:
        return self.passed >= self.at

    def on_call(self, frame: FrameType, kind: str, _: Any) -> Any:
        calling, self._calling = self._calling, None
        if not is_ours(frame.f_code):
            return None
        if calling is None or calling is not frame.f_back:  # such as a property
            self.passed += 1
            if self.passed == self.at:
                self.on_signal(signal.SIGINT, frame)
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._on_instruction

    def _on_instruction(self, frame: FrameType, kind: str, _: Any) -> Any:
        if kind == "opcode":
            calls = _instants_of(frame.f_code).get(frame.f_lasti)
            self._calling = frame if calls else None
            if calls is not None:
                self.passed += 1
                if self.passed == self.at:
                    sys.settrace(None)  # otherwise the tracer would handle the signal at its next begin
                    -ARM  # noqa: B018
        return self._on_instruction

    def on_signal(self, _: int, frame: FrameType | None) -> None:
        if any(caller.f_code.co_filename.startswith(MASTERS) for caller in _callers(frame)):
            self._held_back = True
            return
        self.place = place(frame)
        sys.settrace(None)
        if self.work is None:
            raise KeyboardInterrupt
        self.work()

    def shield(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of a master. As behind a system call, its caller handles the signal."""
        try:
            return function(*arguments)
        finally:
            if self._held_back and _thread.get_ident() == MAIN:  # a signal of another thread would come late
                self._held_back = False
                # The last line: anything behind it would handle the signal.
                -ARM  # noqa: B018

    def on_collection(self, phase: str, _: Any) -> None:
        frame = sys._getframe(1)
        if phase != "start" or _thread.get_ident() != MAIN or not is_ours(frame.f_code):
            return
        self.passed += 1
        if self.passed == self.at and self.work is not None:
            self.place = place(frame)
            self.work()


MAIN = _thread.get_ident()


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Stuck` in the main thread after so many seconds, also where it waits for a mutex."""

    def stuck(_: int, frame: FrameType | None) -> None:
        sys.settrace(None)
        raise Stuck(place(frame))

    signal.signal(signal.SIGALRM, stuck)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


@contextmanager
def signalled(instant: Instant, seconds: float) -> Iterator[None]:
    """Run the body with a signal at an instant. A KeyboardInterrupt goes no further."""
    before = signal.signal(signal.SIGINT, instant.on_signal)
    gc.disable()  # otherwise the signal may hit a finalizer of an earlier run
    with limited(seconds):
        try:
            sys.settrace(instant.on_call)
            try:
                yield
            finally:
                sys.settrace(None)
                instant._held_back = False
        except KeyboardInterrupt:
            pass
        finally:
            gc.enable()
            signal.signal(signal.SIGINT, before)


@contextmanager
def collected(instant: Instant, seconds: float) -> Iterator[None]:
    """Run the body with the work in its n-th collection; every second allocation collects."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # otherwise each collection would go through all objects
    gc.callbacks.append(instant.on_collection)
    with limited(seconds):
        try:
            gc.set_threshold(1, 1_000_000)
            yield
        finally:
            gc.set_threshold(*before)
            gc.callbacks.remove(instant.on_collection)
            gc.unfreeze()
