"""Forms: commands in which only the owner and the token are new, encoded once and filled in each time.

An acquire that has no place, and a release that knows of nobody who waits, come by here: each uncontended
pair. To put their words together and to encode them anew would cost as much as counting the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..model import Code, Vote
from . import commands
from .commands import Command
from .tickets import Place
from .wire import Wire

#: What stands in a form for each byte of an owner, and of a token.
_OWNER, _TOKEN = "\x01", "\x02"

_YES, _vote = Code.YES, tuple.__new__

#: A command for an owner and a token.
Make = Callable[[str, Any], Command]


class Form:
    """One command with blanks. ``make`` puts the words of one without together."""

    __slots__ = ("blanks", "count", "decode", "expected_reply", "make", "noted", "packed", "script", "ttl_ms")

    def __init__(self, make: Make, owner_size: int, token_size: int) -> None:
        owner, token = _OWNER * owner_size, _TOKEN * token_size
        blank = make(owner, token)
        self.make, self.script, self.decode, self.noted = make, blank.script, blank.decode, blank.noted
        self.count, self.ttl_ms = blank.yes.hold_count, blank.yes.ttl_ms

        def pattern(text: bytes) -> bytes:
            # One in which both stand in this order, as they are filled in: an acquire; in the others the
            # owner alone.
            text = text.replace(b"%", b"%%").replace(owner.encode(), b"%b")
            return text.replace(token.encode(), b"%b") if token else text

        packed = encode(blank.by_sha())
        self.packed, self.expected_reply = pattern(packed), pattern(blank.expected_reply)
        #: How often the owner stands in it: a message may name it once more. Not counted in the pattern,
        #: where the name of a lock may look like a blank.
        self.blanks = packed.count(owner.encode())


class Filled(Command):
    """A form that was filled in; its words are put together when somebody asks for them."""

    __slots__ = ("_form", "_token")

    def __init__(self, form: Form, owner: str, owner_text: bytes, token: int, token_text: bytes) -> None:
        self._form, self._token, self.echo = form, token, owner
        self.script, self.decode, self.noted = form.script, form.decode, form.noted
        if token:
            texts = (owner_text, token_text)
            self.packed, self.expected_reply = form.packed % texts, form.expected_reply % texts
        else:
            self.packed = form.packed % ((owner_text,) * form.blanks)
            self.expected_reply = form.expected_reply % owner_text
        # Without the function of the class, which takes as long as to fill in the texts.
        told = (_YES, owner, form.count, form.ttl_ms, None, (), 0, 0, 0, (), token, None, False)
        self.yes = _vote(Vote, told)

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
    """See `commands.acquire`; filled in where there is no place."""
    if place is not None or not token or _OWNER in name or _TOKEN in name:
        return commands.acquire(name, owner, lease_ms, place=place, fair=fair, token=token, guarded=guarded)
    owner_text, token_text = owner.encode(), str(token).encode()
    form = _acquire(name, lease_ms, fair, guarded, len(owner_text), len(token_text))
    return Filled(form, owner, owner_text, token, token_text)


@lru_cache(maxsize=1024)
def _acquire(name: str, lease_ms: int, fair: bool, guarded: bool, owner_size: int, token_size: int) -> Form:
    def make(owner: str, token: Any) -> Command:
        return commands.acquire(name, owner, lease_ms, fair=fair, token=token, guarded=guarded)

    return Form(make, owner_size, token_size)


def release(name: str, owner: str, wire: Wire) -> Command:
    """See `commands.release`: one that neither leaves a place nor has an heir."""
    if not owner or _OWNER in name:
        return commands.release(name, owner, wire=wire)
    owner_text = owner.encode()
    return Filled(_release(name, wire, len(owner_text)), owner, owner_text, 0, b"")


@lru_cache(maxsize=1024)
def _release(name: str, wire: Wire, owner_size: int) -> Form:
    return Form(lambda owner, _: commands.release(name, owner, wire=wire), owner_size, 0)
