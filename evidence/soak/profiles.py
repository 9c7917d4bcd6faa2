"""Negative controls: for each rule of safety that can be broken, the faults that make the breach show.

A chaos suite that never failed proves nothing. Each profile is run twice: with its rule broken it has to go
red, and with nothing broken it has to stay green.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from .plan import Plan, Result
from .run import run

#: How often a profile is tried before a breach counts as unnoticed; the seed is another one each time.
TRIES = 2


@dataclass(frozen=True)
class Profile:
    """One breach, and what brings it to light."""

    sabotage: str
    #: The checks that may notice it: another one going red would be a fault of the profile.
    checks: tuple[str, ...]
    plan: Plan
    #: The change of the plan that makes the breach; None: the sabotage of this name.
    change: dict[str, Any] | None = None

    def broken(self, seed: int, **options: Any) -> Result:
        """With the rule broken, until it is noticed."""
        change = {"sabotage": self.sabotage} if self.change is None else self.change
        return run(dataclasses.replace(self.plan, seed=seed, until_red=True, **change, **options))

    def whole(self, seed: int) -> Result:
        """The same with nothing broken."""
        return run(dataclasses.replace(self.plan, seed=seed, until_gone=False))


def _plan(faults: str, seconds: float = 25.0, **options: object) -> Plan:
    names: object = options.pop("names", ("a", "b"))
    plan = Plan(seconds, seed=0, faults=tuple(faults.split(",")))
    return dataclasses.replace(plan, names=names, **options)  # type: ignore[arg-type]


#: Breaches that a nemesis brings to light on real masters. The others take a coincidence that it hardly ever
#: causes; the search in virtual time does (evidence/bugs).
PROFILES = (
    # All leases are forgotten at once, and the masters are back before their holders can heal them.
    Profile("guard off", ("overlap",), _plan("all", holds="fixed")),
    Profile("quorum N/2", ("overlap",), _plan("disconnect", holds="mixed")),
    # A release that is delivered late, and undos: they meet somebody else's lock.
    Profile("release without owner check", ("overlap",), _plan("stop,cut,slow", masters=5)),
    # Users who ask for the fair order get the default one.
    Profile("fair order", ("overtaken",), _plan("murder,freeze", order="fair"), {"order": "unfair"}),
    # A holder whose clock runs 3 % too slow believes in a lease that has ended.
    Profile("rates of clocks", ("overlap",), _plan("disconnect", holds="fixed"), {"rate": 0.03}),
)
