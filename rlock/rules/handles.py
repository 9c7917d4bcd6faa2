"""Handles: the text of a hold that was detached. It has no secret, and no instant: clocks differ."""

import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple, Self
from urllib.parse import quote, unquote

from ..errors import OptionsError
from .keys import is_owner
from .options import check_name

MAX_CHARACTERS = 300
NOT_KNOWN = "0000"  # in the place of the checksum of a run_id


def checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


class Handle(NamedTuple):
    name: str
    owner: str  # the owner token on the masters, which is nobody's
    token: int  # the fencing token
    mark: int  # a quorum of masters gave no greater token before the detach
    hold_count: int
    lease_ms: int
    fleet: Sequence[str]  # four digits of the checksum of each master's run_id

    def text(self) -> str:
        """In one word, without a character that the shell changes."""
        numbers = self.token, self.mark - self.token, self.hold_count, self.lease_ms
        owner, fleet = quote(self.owner, "/@"), "".join(self.fleet)
        text = ":".join(("rlock2", quote(self.name), owner, *map(str, numbers), fleet))
        return f"{text}:{checksum(text)}"

    @classmethod
    def parse(cls, text: str, masters: int) -> Self:
        """The handle in a text, for a client of so many masters. Raises `OptionsError`."""
        try:
            rest, _, check = text.strip().rpartition(":")
            version, name, owner, *words, fleet = rest.split(":")
            token, above, count, lease_ms = map(int, words)
            numbers = token, token + above, count, lease_ms
            parts = tuple(re.findall("....", fleet))
            handle = cls(check_name(unquote(name)), unquote(owner), *numbers, parts)
            known = checksum(rest) == check and version == "rlock2"
            if not known or min(*numbers, 1 + above) < 1 or not is_owner(handle.owner):
                raise ValueError
        except (AttributeError, TypeError, ValueError):
            raise OptionsError(
                "the text is no handle of this version: pass on the whole text that detach() or "
                "`rlock acquire` has returned"
            ) from None
        if len(handle.fleet) != masters:
            raise OptionsError(
                f"the hold of lock {handle.name!r} was detached on a fleet of {len(handle.fleet)}, and this "
                f"client has another fleet, of {masters}: give it the same masters"
            )
        return handle
