"""Numbers out of the replies of masters. No function here raises, whatever the reply is."""

from __future__ import annotations

import math
import re
from typing import Any

from ..rules.replies import text

#: Integers on the wire have 64 bits.
MOST = 2**63 - 1
_WRITTEN = re.compile(r"-?[0-9]{1,19}")


def number(value: Any) -> float | None:
    """A finite number, or the text of one; None for anything else."""
    if isinstance(value, bytes):
        value = text(value)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """An integer of 64 bits, also as a float or a text; None for anything else."""
    if isinstance(value, int):
        return value if -MOST <= value <= MOST else None
    written = text(value)
    if _WRITTEN.fullmatch(written):
        return whole(int(written))  # not as a float, which rounds beyond 2 to the power of 53
    found = number(value)
    return None if found is None or abs(found) >= MOST else int(found)


def time_us(reply: Any) -> int | None:
    """The reply to TIME, in microseconds; None for anything else."""
    if not isinstance(reply, list | tuple) or len(reply) != 2:
        return None
    seconds, micros = whole(reply[0]), whole(reply[1])
    if seconds is None or micros is None:
        return None
    return whole(seconds * 1_000_000 + micros)
