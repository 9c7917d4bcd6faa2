"""The fleets of each mode, and its kinds of steps with their weights: tables for `schedules.py`."""

from __future__ import annotations

from typing import Any

#: Steps besides acquires, by mode, with their weights. A mode with fewer kinds of faults promises more.
KINDS: dict[str, dict[str, int]] = {
    "storm": {
        "cut": 3, "lose answers": 4, "half open": 2, "hold up": 6, "hold commands": 8, "slow down": 4,
        "stop master": 3, "restart": 4, "restart after a grant": 2, "restart from a snapshot": 2,
        "restart several": 2, "flush": 3, "flush several": 1, "lose the disk": 1, "stop client": 6,
        "kill client": 2, "close client": 1, "keep from running": 2, "interrupt": 3, "evict": 2,
        "newcomer": 2, "look": 3, "flush scripts": 1, "stranger": 1, "set a clock back": 1, "careless": 1,
        "nonsense": 2, "init": 1, "regroup": 1, "stopped newcomer": 2, "mirror": 1,
    },
    "slow": {"newcomer": 1, "look": 1},
    "deaths": {"kill client": 8, "close client": 6, "close slowly": 6, "die asking": 6, "newcomer": 2},
    "cuts": {"cut messages": 5, "newcomer": 1, "regroup": 1},
    "stops": {"stop client": 5, "flush scripts": 2},
    "clocks": {"newcomer": 5, "set a clock back": 3, "look": 1, "late looks": 8},
    "groups": {"newcomer": 3, "look": 2, "hold up": 1, "stop client": 1, "restart": 1, "cut": 1},
    "guard": {
        "restart": 4, "restart after a grant": 5, "restart several": 3, "flush": 4, "flush several": 2,
        "stop master": 6, "hold up": 6, "hold commands": 4, "lose answers": 2, "cut": 2, "stop client": 2,
        "look": 2, "newcomer": 3, "stopped newcomer": 3, "init": 1, "careless": 12,
    },
    "hand-off": {
        "hold commands": 8, "stop client": 8, "hold up": 3, "let go": 3, "lose answers": 3,
        "lose commands": 3, "cut": 2, "flush scripts": 1, "keep from running": 4, "evict": 2,
        "kill client": 1, "mirror": 3, "stop decided": 6, "stop reading": 4,
    },
    "races": {
        "interrupt": 4, "keep from running": 3, "let go": 4, "lose answers": 4, "lose commands": 4,
        "cut": 4, "cut messages": 3, "restart": 6, "silence": 2, "newcomer": 1,
    },
    "leases": {
        "restart": 3, "restart after a grant": 10, "flush": 2, "stop master": 8, "stop client": 8,
        "keep from running": 6, "let go": 5, "hold commands": 8, "cut": 2, "evict": 5, "look": 1,
        "newcomer": 8, "one fewer": 1, "out of reach": 1, "onlookers": 1, "broken off": 1,
        "late healers": 1, "lost scripts": 2,
    },
    "messages": {
        "late commands": 12, "overtaken": 12, "stray tokens": 6, "evictions": 6,
        "uneven": 6, "let go": 2, "newcomer": 1, "cut": 1, "one fewer": 5, "late transfers": 1,
    },
}  # fmt: skip
MODES = {
    "storm": 22, "slow": 6, "deaths": 28, "cuts": 8, "stops": 8, "clocks": 8, "hand-off": 12, "races": 18,
    "groups": 20, "guard": 24, "leases": 24, "messages": 16,
}  # fmt: skip
#: How the clients use the locks: all in any way, or all in one.
HABITS = ("any", "any", "waiting", "waiting", "fixed")
_QUIET: dict[str, Any] = {
    "fleet": ("short", "short", "long"), "past": ("vouched", "noted"), "clients": (2, 2, 3, 4),
    "masters": (3, 3, 5), "jitter": 0.0005, "joined": True, "habit": HABITS,
}  # fmt: skip
#: By mode: the fields of `Setup` that its schedules share; one of a tuple is drawn, in this order.
SETUPS: dict[str, dict[str, Any]] = {
    "slow": {**_QUIET, "fleet": "patient"},
    "deaths": {
        **_QUIET, "fleet": "long", "hands": (0.0, 0.7), "habit": (*HABITS, *["overdue"] * 10),
        "overdue_ttl": (0.4, 0.4, 0.6),
    },
    "cuts": _QUIET,
    "clocks": {**_QUIET, "past": "ahead"},
    "stops": {
        "clients": (2, 3, 4), "jitter": (0.0002, 0.002), "masters": (3, 3, 5), "fleet": "long",
        "joined": True, "habit": "always",
    },
    "hand-off": {
        "fleet": ("long", "long", "long", "patient", "short"), "masters": (3, 3, 3, 5), "clients": (3, 3, 4),
        "jitter": (0.0002, 0.005), "skew": (0.005, 0.005, 30.0), "far": (0.0, 0.15, 0.3),
        "ahead": (0.0, 0.0, 0.0, 0.5), "joined": True, "habit": "always",
    },
    "races": {
        "jitter": (0.002, 0.01, 0.02), "masters": (3, 3, 5), "clients": (2, 2, 3),
        "ahead": (0.0, 0.0, 0.0, 0.3), "fleet": "long", "durable": 1.0, "joined": True, "habit": "always",
    },
    "messages": {
        "clients": (2, 3, 3, 4), "jitter": (0.0002, 0.005),
        "habit": ("always", "trying", "grabbing", "grabbing"), "far": (0.0, 0.0, 0.15, 0.3),
        "ahead": (0.0, 0.3, 0.5), "keeps": (0.0, 0.0, 0.0, 0.4), "resets": (0.0, 0.5),
        "hands": (0.0, 0.0, 0.0, 0.5), "fleet": "long", "joined": True,
    },
    "leases": {
        "fleet": ("short", "hasty", "hasty", "two", "long"), "masters": (3, 3, 3, 5), "clients": (2, 2, 3),
        "jitter": (0.0002, 0.005), "skew": (0.005, 0.005, 30.0),
        "habit": ("always", "trying", "apart", "apart", "apart"), "cut_off": (0.0, 0.3, 0.5, 0.5),
        "pauses": (0.0, 0.5), "joined": True,
    },
}  # fmt: skip
#: By mode: the events behind which a step does most harm.
FITTING: dict[str, dict[str, tuple[str, ...]]] = {
    "deaths": {"close client": ("leave", "leave", "grant")},
    "guard": {"careless": ("enter", "leave", "loss")},
    "leases": {
        "let go": ("kept", "decided", "decided"),
        "keep from running": ("absent", "absent", "renew"),
        "hold commands": ("queued", "queued", "release", "renew"),
        "evict": ("claim", "claim", "enter"),
        "newcomer": ("suspect",),
        "restart after a grant": ("enter", "suspect"),
        "stop client": ("threat", "threat", "release", "renew"),
    },
}
FAILOVERS = {
    "promote": 3, "stale primary": 12, "late replica": 3, "empty return": 2, "fail back": 3,
    "old replica": 9, "added replica": 2,
}  # fmt: skip
