"""Clocks: what the masters' own say, against each other and against ours."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ....rules.timing import DRIFT_FACTOR
from ...output import percent, span
from ...scan.snapshot import CLOCK_ALERT_S
from ..facts import Facts, Fleet, clock_offset
from ..findings import Severity, Told, error, note, of_fleet, warning

#: An offset of which something is said. Two clocks that NTP keeps are some ms apart.
NOTE_S = 0.02
#: Rates. NTP slews by up to 0.05 %, quartz is off by 0.02 % at the most.
NOTE_RATE = 0.001

_SYNC = "does time synchronisation run there? chronyc tracking, or timedatectl"


@of_fleet("clock-offset", Severity.WARNING, "The masters' clocks agree.")
def offset(fleet: Fleet) -> Iterator[Told]:
    """Constant offsets are harmless to leases; a clock that is set is not."""
    known = [(facts, told) for facts in fleet.masters if (told := clock_offset(facts, fleet)) is not None]
    for facts, (ahead, unsure) in known:
        sure = abs(ahead) - unsure
        what = (
            f"its clock is {span(ahead)} {'ahead of' if ahead > 0 else 'behind'} the other masters' "
            f"(give or take {span(unsure)})"
        )
        if sure > CLOCK_ALERT_S:
            yield warning(
                what,
                "a difference does no harm while it stays, but it says that nothing keeps this clock: when "
                "it is set forward, leases on this master end early; and fencing tokens that a restart has "
                "wiped out, begin again by the masters' time",
                f"synchronise it by slewing, not in a jump while locks are held; {_SYNC}",
                master=facts.master,
            )
        elif sure > NOTE_S:
            yield note(what, "clocks that are synchronised are closer", _SYNC, master=facts.master)
        elif unsure > CLOCK_ALERT_S:
            yield note(
                f"its clock cannot be compared more closely than to {span(unsure)}: the round trips are too "
                "long",
                "a difference of less than that would not be seen",
                "run this command on a machine that is nearer",
                master=facts.master,
            )


@of_fleet("clock-rate", Severity.ERROR, "The masters' clocks, and ours, run at the same rate.")
def rate(fleet: Fleet) -> Iterator[Told]:
    """The one thing about clocks that exclusion rests on."""
    known = [(facts, told) for facts in fleet.masters if (told := facts.rate()) is not None]
    if not known:
        return
    middle = statistics.median_low([fast for _, (fast, _) in known])
    apart = max(unsure for _, (_, unsure) in known)
    if len(known) > 1 and abs(middle) - apart > NOTE_RATE:
        yield _told(
            middle,
            apart,
            "the masters' clocks, together,",
            "all of them alike: so it may be the clock of this machine, which holders here go by",
            "look at this machine first",
            None,
        )
    for facts, (fast, unsure) in known:
        relative = fast - (middle if len(known) > 1 else 0.0)
        if abs(relative) - unsure > NOTE_RATE:
            yield _told(
                relative,
                unsure,
                "its clock",
                "or was set while this command looked",
                "run this again to see whether it stays so",
                facts.master,
            )
        elif unsure > DRIFT_FACTOR / 2:
            yield note(
                f"the rate of its clock cannot be told more closely than to {percent(unsure)}",
                f"the drift allowance is {percent(DRIFT_FACTOR)}: the round trips are too long for so short "
                "a look",
                "look for longer: rlock doctor --measure 30",
                master=facts.master,
            )


def _told(fast: float, unsure: float, whose: str, doubt: str, look: str, master: str | None) -> Told:
    runs = "run" if master is None else "runs"
    what = (
        f"{whose} {runs} {percent(fast)} {'fast' if fast > 0 else 'slow'} by the clock of this machine "
        f"(give or take {percent(unsure)}), {doubt}"
    )
    why = (
        f"leases are safe while clocks run at the same rate within {percent(DRIFT_FACTOR)}: a master that is "
        "faster lets a lease end before its holder knows"
    )
    action = f"{look}; {_SYNC}"
    sure = abs(fast) - unsure
    say = error if sure > DRIFT_FACTOR else warning if sure > DRIFT_FACTOR / 2 else note
    return say(what, why, action, master=master)


def offset_of(facts: Facts, fleet: Fleet) -> str:
    """For the line of a master."""
    told = clock_offset(facts, fleet)
    if told is None:
        return ""
    ahead, unsure = told
    return f"clock {'+' if ahead >= 0 else '-'}{span(ahead)} ± {span(unsure)}"
