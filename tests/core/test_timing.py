"""The duration formulas, and the options that they constrain."""

from __future__ import annotations

import math
import re

import pytest

from rlock.errors import OptionsError
from rlock.rules import timing
from rlock.rules.options import ClientOptions, LockOptions, from_env


@pytest.mark.parametrize("ttl", [0.1, 0.5, 1.0, 3.0, 10.0])
def test_two_more_renewals_fit_after_the_first_that_failed(ttl: float) -> None:
    timeout = timing.default_request_timeout(ttl)
    first = timing.renew_period(ttl) + timeout
    second = first + timing.retry_period(ttl) + timeout
    assert second < timing.valid_until(0.0, ttl)


def test_expiry_wait_is_the_moment_at_which_a_quorum_is_free() -> None:
    margin = timing.EXPIRY_MARGIN_S
    # all five refuse: three must expire
    assert timing.expiry_wait([5000, 1000, 4000, 2000, 3000], 3) == pytest.approx(3.0 + margin)
    # two granted already: one of the others must expire
    assert timing.expiry_wait([5000, 1000, 4000], 1) == pytest.approx(1.0 + margin)
    # fewer have told than must expire: the last of them is the earliest that is worth a try
    assert timing.expiry_wait([5000, 1000], 3) == pytest.approx(5.0 + margin)
    # keys without expiry never free the lock, and the poll cap bounds the sleep
    assert timing.expiry_wait([-1, -1, -1], 2) == math.inf
    assert timing.expiry_wait([-1, 700, 900], 2) == pytest.approx(0.9 + margin)
    # nothing is known to be missing: no reason to ask again and again
    assert timing.expiry_wait([500], 0) == math.inf


def refusal(**options: object) -> str:
    with pytest.raises(OptionsError) as caught:
        ClientOptions(**options)  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


@pytest.mark.parametrize("option", ["ttl", "max_ttl", "request_timeout"])
@pytest.mark.parametrize("value", [0, -1, math.inf, -math.inf, math.nan, True, "10", b"1"])
def test_a_duration_that_is_none_is_refused_by_name(option: str, value: object) -> None:
    assert option in refusal(**{option: value})


def test_each_inequality_has_its_own_sentence() -> None:
    assert "too short" in refusal(ttl=0.05)
    assert "max_ttl" in refusal(ttl=11.0)
    assert "request_timeout" in refusal(ttl=2.0, request_timeout=0.8)
    told = refusal(ttl=3.0, request_timeout=1.0)
    assert "use ttl over 3.05 s" in told
    ClientOptions(ttl=3.06, request_timeout=1.0)
    told = refusal(request_timeout=1.1)
    assert "request_timeout=1.1 s is too long" in told
    assert "1 s or less" in told
    with pytest.raises(OptionsError, match="fleet"):
        ClientOptions().lease(30.0)


@pytest.mark.parametrize("seconds", [86_400.1, 2e13])
def test_no_lease_is_longer_than_a_day(seconds: float) -> None:
    day = ClientOptions(ttl=86_400.0, max_ttl=86_400.0)
    assert re.search(r"max_ttl=.*over a day \(86400 s\)", refusal(max_ttl=seconds))
    assert "over a day" in refusal(ttl=seconds, max_ttl=seconds)
    with pytest.raises(OptionsError, match="is over a day"):
        day.lease(seconds)


@pytest.mark.parametrize("name", ["", None, 7, b"x", ["x"], "\ud800", "x" * 1025, "rlock:{x}:queue"])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    with pytest.raises(OptionsError):
        LockOptions(name, ClientOptions().lease(None))  # type: ignore[arg-type]


def test_max_hold_and_on_lost_are_checked() -> None:
    lease = ClientOptions().lease(None)
    with pytest.raises(OptionsError, match="renew=False"):
        LockOptions("x", lease, renew=False, max_hold=5)
    with pytest.raises(OptionsError, match="max_hold"):
        LockOptions("x", lease, max_hold=math.nan)
    with pytest.raises(OptionsError, match="callable"):
        LockOptions("x", lease, on_lost="no")  # type: ignore[arg-type]


def test_masters_and_options_come_out_of_the_environment() -> None:
    masters, options = from_env(
        {"RLOCK_MASTERS": "redis://a:1, redis://b:2\nredis://c:3", "RLOCK_TTL": "5", "RLOCK_MAX_TTL": " "}
    )
    assert masters == ["redis://a:1", "redis://b:2", "redis://c:3"]
    assert options == {"ttl": 5.0}
    with pytest.raises(OptionsError, match="rlock up"):
        from_env({})
    with pytest.raises(OptionsError, match="--pass-masters"):
        from_env({"RLOCK_OWNER": "as in a command of rlock run"})
    for bad in ("ten", "-1", "inf", "nan"):
        with pytest.raises(OptionsError, match="RLOCK_TTL"):
            from_env({"RLOCK_MASTERS": "redis://a", "RLOCK_TTL": bad})
