"""Keys out of the bytes that a terminal sends."""

from __future__ import annotations

import codecs

#: What terminals send for keys that are no character; two forms, by the mode that they are in.
_SEQUENCES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
}
_SINGLE = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x15": "clear"}


class Keys:
    """Feed it what comes; it keeps what may be the beginning of something."""

    def __init__(self) -> None:
        self._held = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    @property
    def pending(self) -> bool:
        """Whether an escape may be the beginning of a sequence: the next bytes, or a moment, will tell."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete: characters, or names such as ``up`` and ``escape``."""
        data, self._held = self._held + data, b""
        keys: list[str] = []
        while data:
            if not data.startswith(b"\x1b"):
                text, escape, rest = data.partition(b"\x1b")
                keys += [_SINGLE.get(c, c) for c in self._decoder.decode(text)]
                data = escape + rest
                continue
            end = _end(data)
            if end is None:
                self._held = data
                break
            key = "escape" if end == 1 else _SEQUENCES.get(data[:end])
            if key is not None:
                keys.append(key)  # an unknown one is no key: its letters must not be taken for commands
            data = data[end:]
        return keys

    def settle(self) -> list[str]:
        """Nothing came for a while: an escape that waited for more was the key of this name."""
        held, self._held = self._held, b""
        return ["escape"] if held == b"\x1b" else []


def _end(data: bytes) -> int | None:
    """Where the sequence ends that begins with an escape; None: not yet."""
    if len(data) == 1:
        return None
    if data[1:2] == b"O":
        return 3 if len(data) > 2 else None
    if data[1:2] != b"[":
        return 1
    # ECMA-48: parameters and intermediates, then one byte from @ to ~.
    for i in range(2, len(data)):
        if 0x40 <= data[i] <= 0x7E:
            return i + 1
        if not 0x20 <= data[i] <= 0x3F:
            return i
    return None
