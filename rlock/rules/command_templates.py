"""Commands as bytes, and the replies that are expected to them.

The head of an acquire or a release is encoded once for each lock; rendering adds the arguments that differ
each time. The usual reply is known as bytes, too: comparing takes a tenth of the time of parsing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..model import NO_QUEUE, Code, Vote
from .replies import decode_one
from .scripts import Script

#: Bound once: enum lookup is measurable on this path, and Vote() takes twice as long as tuple.__new__.
_YES, _vote = Code.YES, tuple.__new__

#: The start of the usual reply, its vote, and whether `end_of_acquire` follows. One tuple: otherwise Ctrl-C
#: between two assignments would leave the bytes of one reply with the vote of another.
ExpectedReply = tuple[bytes, Vote, bool]

NO_EXPECTED_REPLY: ExpectedReply = (b"\0", Vote(Code.FAULT), False)  # no reply starts with these bytes
#: The vote of a release that reached no subscriber. All commands share it: no code reads its holder.
_RELEASED = Vote(Code.YES, ttl_ms=0)


@dataclass(slots=True, eq=False)
class Command:
    script: Script
    words: tuple[str, ...]  # the number of keys, the keys, and the arguments of the template
    changing: tuple[str, ...]  # the last arguments
    packed: bytes  # the command for a master that has the script
    echo: str | None = None  # the holder that a YES must name, or it answers another command; None: any
    expected_reply: ExpectedReply = NO_EXPECTED_REPLY
    decode: Callable[[Any], Vote] = decode_one
    acknowledged: bool = False  # in a group, its vote counts only when all replicas have the writes before
    unwritten: str = ""  # the lock, if its master may write nothing; its vote needs the replicas all the same

    def by_sha(self) -> tuple[str, ...]:
        return ("EVALSHA", self.script.sha, *self.words, *self.changing)

    def by_source(self) -> tuple[str, ...]:
        return ("EVAL", self.script.source, *self.words, *self.changing)


class CommandTemplate:
    """A command whose last arguments (``changing``: how many) differ each time; the rest is encoded once."""

    __slots__ = ("_head", "_script", "_words")

    def __init__(self, script: Script, keys: Sequence[str], arguments: Sequence[str], changing: int) -> None:
        self._script = script
        self._words = (str(len(keys)), *keys, *arguments)
        head = ("EVALSHA", script.sha, *self._words)
        self._head = b"*%d\r\n%b" % (len(head) + changing, _bulk_strings(head))

    def render(self, *changing: str, echo: str) -> Command:
        return Command(self._script, self._words, changing, self._head + _bulk_strings(changing), echo)

    def render_acquire(self, owner: str, lease_ms: int, token: int) -> Command:
        """An acquire without a place: the owner and the proposed fencing token differ each time."""
        text, proposal = owner.encode(), str(token)
        packed = b"%b$%d\r\n%b\r\n$%d\r\n%d\r\n" % (self._head, len(text), text, len(proposal), token)
        expected = expect_grant(owner, lease_ms, token) if token else NO_EXPECTED_REPLY
        return Command(self._script, self._words, (owner, proposal), packed, owner, expected)

    def render_release(self, owner: str, token: int) -> Command:
        """A release without a place: the token to propose and the owner differ each time."""
        text, proposal = owner.encode(), str(token)
        holder = b"$%d\r\n%b\r\n" % (len(text), text)
        packed = b"%b$%d\r\n%d\r\n%b" % (self._head, len(proposal), token, holder)
        expected = b"*5\r\n:1\r\n%b:0\r\n:0\r\n:0\r\n" % holder, _RELEASED, False
        return Command(self._script, self._words, (proposal, owner), packed, owner, expected)


def expect_grant(owner: str, lease_ms: int, token: int) -> ExpectedReply:
    """The reply to `acquire` of a master that grants the lease and the proposed token."""
    text = owner.encode()
    start = b"*9\r\n:1\r\n$%d\r\n%b\r\n:1\r\n:%d\r\n:0\r\n:0\r\n:%d\r\n" % (len(text), text, lease_ms, token)
    return start, _vote(Vote, (_YES, owner, 1, lease_ms, None, (), 0, 0, NO_QUEUE, token, None, False)), True


def end_of_acquire(note: str) -> bytes:
    """The end of that reply: this note, and an empty queue."""
    text = note.encode()
    return b"$%d\r\n%b\r\n:0\r\n" % (len(text), text)


def encode(words: Sequence[str]) -> bytes:
    return b"*%d\r\n%b" % (len(words), _bulk_strings(words))


def _bulk_strings(words: Sequence[str]) -> bytes:
    # Joined as text: to encode each word alone takes 1.4 times as long.
    return "".join(
        [f"${len(word) if word.isascii() else len(word.encode())}\r\n{word}\r\n" for word in words]
    ).encode()
