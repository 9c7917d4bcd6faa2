"""Handles: the text of a hold that was detached. It has no secret, and no instant: clocks differ."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from ..errors import OptionsError
from .keys import is_owner
from .options import check_name


def checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


class Handle(NamedTuple):
    name: str
    owner: str  # the owner token on the masters, which is nobody's
    token: int  # the fencing token
    hold_count: int
    lease_ms: int
    fleet: Sequence[str]  # the checksum of each master's run_id; "": not known

    def text(self) -> str:
        """In one word, without a character that the shell changes."""
        words = map(str, (*self[:5], "-".join(self.fleet)))
        text = ":".join(("rlock1", *(quote(word, safe="") for word in words)))
        return f"{text}:{checksum(text)}"

    @classmethod
    def parse(cls, text: str, masters: int) -> Handle:
        """The handle in a text, for a client of so many masters. Raises `OptionsError`."""
        try:
            _, *words, _ = text.strip().split(":")
            name, owner, *numbers, fleet = map(unquote, words)
            token, count, lease_ms = map(int, numbers)
            handle = cls(check_name(name), owner, token, count, lease_ms, tuple(fleet.split("-")))
            if handle.text() != text.strip() or min(handle[2:5]) < 1 or not is_owner(owner):
                raise ValueError
        except (AttributeError, TypeError, ValueError):
            raise OptionsError(
                "the text is no handle of this version: pass on the whole text that detach() or "
                "`rlock acquire` has returned"
            ) from None
        if len(handle.fleet) != masters:
            raise OptionsError(
                f"the hold of lock {name!r} was detached on a fleet of {len(handle.fleet)}, and this client "
                f"has another fleet, of {masters}: give it the same masters"
            )
        return handle
