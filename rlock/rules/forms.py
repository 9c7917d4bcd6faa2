"""Forms: commands in which only the owner and the token are new, encoded once and filled in each time.

An acquire that has no place, and a release that knows of nobody who waits, come by here: each uncontended
pair. To put their words together and to encode them anew would cost as much as counting the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..model import Vote
from . import scripts
from .places import Place
from .scripts import Command
from .wire import Wire

#: What stands in a form for each byte of an owner, and of a token.
_OWNER, _TOKEN = "\x01", "\x02"

#: A command for an owner and a token.
Make = Callable[[str, Any], Command]


class Form:
    """One command with blanks. ``make`` puts the words of one without together."""

    __slots__ = ("blank", "make", "owner", "packed", "token")

    def __init__(self, make: Make, owner_size: int, token_size: int) -> None:
        owner, token = _OWNER * owner_size, _TOKEN * token_size
        self.make, self.blank = make, make(owner, token)
        self.owner, self.token = owner.encode(), token.encode()
        self.packed = encode(self.blank.by_sha())


class Filled(Command):
    """A form that was filled in; its words are put together when somebody asks for them."""

    __slots__ = ("_form", "_token")

    def __init__(self, form: Form, owner: str, owner_text: bytes, token: int, token_text: bytes) -> None:
        blank = form.blank
        self._form, self._token = form, token
        self.script, self.decode, self.echo, self.marked = blank.script, blank.decode, owner, blank.marked
        self.packed = form.packed.replace(form.owner, owner_text)
        self.foreseen = blank.foreseen.replace(form.owner, owner_text)
        if blank.marked:
            self.packed = self.packed.replace(form.token, token_text)
            self.foreseen = self.foreseen.replace(form.token, token_text)
        code, _, count, ttl_ms = blank.yes[:4]
        self.yes = Vote(code, owner, count, ttl_ms, None, (), 0, 0, 0, (), token)

    def by_sha(self) -> tuple[str, ...]:
        """The command for a master that has the script."""
        return self._form.make(self.echo or "", self._token).by_sha()

    def by_source(self) -> tuple[str, ...]:
        """The command for a master that has not."""
        return self._form.make(self.echo or "", self._token).by_source()


def encode(words: Sequence[str]) -> bytes:
    """A command as it goes on the wire: an array of bulk strings."""
    texts = [word.encode() for word in words]
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)


def acquire(
    name: str, owner: str, lease_ms: int, *, place: Place | None, fair: bool, token: int, guarded: bool
) -> Command:
    """See `scripts.acquire`; filled in where there is no place."""
    if place is not None or not token or _OWNER in name or _TOKEN in name:
        return scripts.acquire(name, owner, lease_ms, place=place, fair=fair, token=token, guarded=guarded)
    owner_text, token_text = owner.encode(), str(token).encode()
    form = _acquire(name, lease_ms, fair, guarded, len(owner_text), len(token_text))
    return Filled(form, owner, owner_text, token, token_text)


@lru_cache(maxsize=1024)
def _acquire(name: str, lease_ms: int, fair: bool, guarded: bool, owner_size: int, token_size: int) -> Form:
    def make(owner: str, token: Any) -> Command:
        return scripts.acquire(name, owner, lease_ms, fair=fair, token=token, guarded=guarded)

    return Form(make, owner_size, token_size)


def release(name: str, owner: str, wire: Wire) -> Command:
    """See `scripts.release`: one that neither leaves a place nor has an heir."""
    if not owner or _OWNER in name:
        return scripts.release(name, owner, wire=wire)
    owner_text = owner.encode()
    return Filled(_release(name, wire, len(owner_text)), owner, owner_text, 0, b"")


@lru_cache(maxsize=1024)
def _release(name: str, wire: Wire, owner_size: int) -> Form:
    return Form(lambda owner, _: scripts.release(name, owner, wire=wire), owner_size, 0)
