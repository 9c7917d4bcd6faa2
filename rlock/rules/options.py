"""Options, checked once when they are given; each rule has an error text of its own."""

import contextlib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ..errors import LeaseLostError, OptionsError
from .keys import WIRES, hold_name
from .timing import MAX_TTL_S, default_request_timeout, guard_time, lease_ms, least_ttl, longest_acquisition

DEFAULT_TTL = 10.0
REDISSON_TTL = 30.0  # the default of Redisson's `lockWatchdogTimeout`
MIN_TTL = 0.1  # scheduling delays and the 1 ms resolution of PEXPIRE would end shorter leases
MAX_NAME_BYTES = 1024


@dataclass(frozen=True)
class LeaseOptions:
    ttl: float
    request_timeout: float
    longest: float = 1.0  # a round that takes longer does not count


@dataclass(frozen=True)
class ClientOptions:
    """The options that all locks of one client share. Times are seconds."""

    ttl: float = DEFAULT_TTL
    max_ttl: float = DEFAULT_TTL
    request_timeout: float | None = None
    restart_guard: float | None = None
    interop: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.interop, str | None) or self.interop not in WIRES:
            given = shown(self.interop)
            raise OptionsError(f'interop must be "redisson", to share locks with Java, or None, not {given}')
        for option in ("ttl", "max_ttl", "request_timeout", "restart_guard"):
            check, value = _check_ttl if "ttl" in option else check_seconds, getattr(self, option)
            if value is not None or check is _check_ttl:  # as a float: a Fraction cannot be formatted
                object.__setattr__(self, option, check(option, value, option == "restart_guard"))
        least = guard_time(self.max_ttl)
        if 0 < (self.restart_guard or 0.0) < least:
            raise OptionsError(
                f"restart_guard={self.restart_guard:g} s is too short for max_ttl={self.max_ttl:g} s: a "
                f"master that restarted has no vote until no lease from before can be valid, which takes "
                f"{least:.3f} s; leave it out, or use 0 to do without the guard"
            )
        self.lease(None)

    def lease(self, ttl: float | None) -> LeaseOptions:
        """The lease of one lock with its own ttl, or else the client's."""
        ttl = self.ttl if ttl is None else _check_ttl("ttl", ttl)
        if ttl < MIN_TTL:
            raise OptionsError(f"ttl={ttl:g} s is too short: use {MIN_TTL:g} s or more, 10 s if in doubt")
        if ttl > self.max_ttl:
            raise OptionsError(
                f"ttl={ttl:g} s is over max_ttl={self.max_ttl:g} s, which is one value for the whole "
                f"fleet: use a shorter ttl (a held lock is renewed anyway), or give "
                f"every client max_ttl={ttl:g} (environment: RLOCK_MAX_TTL={ttl:g})"
            )
        timeout = self.request_timeout
        if timeout is None:
            timeout = default_request_timeout(ttl)
        least = least_ttl(timeout)
        if ttl <= least:
            raise OptionsError(
                f"ttl={ttl:g} s is too short for request_timeout={timeout:g} s: a third of the ttl, two "
                f"request time-outs and the clock drift must fit into it, so that a renewal can fail once "
                f"and be tried again; use ttl over {least:.3g} s, or a shorter request_timeout"
            )
        longest = longest_acquisition(self.max_ttl)
        if timeout > longest:
            raise OptionsError(
                f"request_timeout={timeout:g} s is too long for max_ttl={self.max_ttl:g} s: an acquire must "
                f"be over within {longest:.3g} s to count, so one that waits longer for a master cannot "
                f"win; use a request_timeout of {longest:.3g} s or less"
            )
        return LeaseOptions(float(ttl), float(timeout), longest)

    def kept(self, option: str, seconds: float, or_zero: bool = False) -> float:
        """A time for which a lock is kept without an owner that renews it."""
        if check_seconds(option, seconds, or_zero=or_zero) > self.max_ttl:
            raise OptionsError(
                f"{option}={seconds:g} s is over max_ttl={self.max_ttl:g} s, the longest lease of the "
                f"fleet: the lock is kept as a lease that nobody renews; use a shorter one, or give every "
                f"client max_ttl={seconds:g} (environment: RLOCK_MAX_TTL={seconds:g})"
            )
        return float(seconds)


@dataclass(frozen=True)
class LockOptions:
    name: str
    lease: LeaseOptions
    renew: bool = True
    on_lost: Callable[[LeaseLostError], object] | None = None
    max_hold: float | None = None
    fair: bool = False
    hold_at_least: float = 0.0
    shared: bool = False  # a reader
    hold_name: str = field(init=False)  # see `keys.hold_name`

    def __post_init__(self) -> None:
        object.__setattr__(self, "hold_name", hold_name(check_name(self.name), self.shared))
        for option, value in (("renew", self.renew), ("fair", self.fair)):
            if not isinstance(value, bool):
                raise OptionsError(f"{option} must be True or False, not {value!r}")
        if self.on_lost is not None and not callable(self.on_lost):
            raise OptionsError(f"on_lost must be callable with one argument, not {self.on_lost!r}")
        if self.max_hold is not None:
            object.__setattr__(self, "max_hold", check_seconds("max_hold", self.max_hold))
            if not self.renew:
                raise OptionsError("max_hold limits renewal, and renew=False has none: give one of the two")
        if self.max_hold is not None and self.hold_at_least > self.max_hold:
            raise OptionsError(
                f"hold_at_least={self.hold_at_least:g} s is over max_hold={self.max_hold:g} s, after which "
                f"the lock is lost: give a longer max_hold"
            )


def _check_ttl(option: str, value: Any, or_zero: bool = False) -> float:
    seconds = check_seconds(option, value)
    if seconds > MAX_TTL_S:
        raise OptionsError(
            f"{option}={seconds:g} s is over a day ({MAX_TTL_S:g} s): a lock would stay locked for so long "
            f"after a crash; use a shorter one, 10 s if in doubt (a held lock is renewed anyway)"
        )
    return lease_ms(seconds) / 1000


def check_callback(option: str, callback: object) -> None:
    """Raise `OptionsError` for a callback that a thread would call and nobody would await."""
    if any(map(inspect.iscoroutinefunction, (callback, getattr(callback, "__call__", None)))):  # noqa: B004
        raise OptionsError(
            f"{option} is a coroutine function, which a thread cannot await: give a function, or use an "
            f"rlock.asyncio.Client: {callback!r}"
        )


def check_name(name: object) -> str:
    if not isinstance(name, str):
        raise OptionsError(f"a lock's name must be a str, not {type(name).__name__}: {name!r}")
    if not name:
        raise OptionsError("a lock's name must not be empty: name what it protects, such as 'orders:42'")
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise OptionsError(f"a lock's name must be text that UTF-8 can carry: {name!r} ({error})") from None
    if len(encoded) > MAX_NAME_BYTES:
        raise OptionsError(f"a lock's name may have {MAX_NAME_BYTES} bytes, this one has {len(encoded)}")
    if name.startswith("rlock:"):
        raise OptionsError(f"names that start with 'rlock:' are the library's own keys: rename {name!r}")
    return name


def check_seconds(option: str, value: Any, or_zero: bool = False) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if isinstance(value, int) and value.bit_length() > 1023:
        value = math.inf  # no float is so large
    if not is_number or not math.isfinite(value) or value < 0 or (value == 0 and not or_zero):
        least = "of 0 or more" if or_zero else "above 0"
        raise OptionsError(f"{option} must be a finite number of seconds {least}, not {shown(value)}")
    return float(value)


def shown(value: object) -> str:
    """A wrong value, for a message. In the place of another option, a URL may bring a password."""
    return "a URL" if ":/" in str(value) else repr(value)


def split_urls(text: str) -> list[str]:
    """The URLs in one string, as RLOCK_MASTERS has them. A comma between two Sentinels ends no URL."""
    found: list[str] = []
    for part in re.split(r"[,\s]+", text):
        if found and "://" not in part and re.fullmatch(r"\w+\+sentinel://[^/]*", found[-1]):
            found[-1] += f",{part}"
        elif part:
            found.append(part)
    return found


def from_env(environ: Mapping[str, str]) -> tuple[list[str], dict[str, Any]]:
    masters = split_urls(environ.get("RLOCK_MASTERS", ""))
    if not masters:
        hint = (
            "`rlock run` takes it from its command unless --pass-masters is given"
            if "RLOCK_OWNER" in environ
            else "`rlock up` starts local ones and prints the line"
        )
        raise OptionsError(
            "RLOCK_MASTERS is not set: name the masters in it, separated by commas, such as "
            f"RLOCK_MASTERS=redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379 ({hint})"
        )
    options: dict[str, Any] = {}
    for option in ("ttl", "max_ttl", "request_timeout", "restart_guard"):
        variable = f"RLOCK_{option.upper()}"
        value: Any = environ.get(variable, "").strip()
        if value:
            with contextlib.suppress(ValueError):  # `check_seconds` refuses the text
                value = float(value)
            options[option] = check_seconds(variable, value, or_zero=option == "restart_guard")
    interop = environ.get("RLOCK_INTEROP", "").strip()
    if interop:
        options["interop"] = interop
    return masters, options
