"""The picture: a snapshot as lines of text, for a width and a height. Pure; what moves is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from ...model import LockStatus
from ..scan.reading import label, ordered, seen, votes
from ..scan.snapshot import CLOCK_ALERT_S, MasterHealth, Snapshot
from ..words import cut, ms, padded, printable, seconds, size, width
from .columns import Cell, Column, table

#: The least width, and lines beside those of the masters.
LEAST_COLUMNS, LEAST_LINES = 60, 10
HELP = (
    ("q", "quit; Ctrl-C, too"),
    ("j k, arrows, PgUp PgDn, g G", "choose a lock; below are its masters and who waits"),
    ("s", "sort by name, waiters, since, lease"),
    ("/", "show only names that hold a text; Enter keeps it, Esc drops it"),
    ("p, blank", "pause: no more looks until you press it again"),
    ("?", "this help"),
    ("", ""),
    ("VOTES 2/3", "two of three masters say so; under a quorum nobody has the lock"),
    ("LEASE", "what is left of it unless it is renewed, which happens each third of the ttl"),
    ("hand-offs/s", "new owners of locks that were waited for"),
)


@dataclass
class View:
    """What the one at the keys has chosen."""

    pattern: str = "*"
    order: str = "name"
    filter: str = ""
    typing: bool = False  # the filter is being typed
    paused: bool = False
    help: bool = False
    chosen: str | None = None  # name of a lock
    top: int = 0  # first line of the table that is shown
    page: int = 1  # lines of the table that were shown last
    utf8: bool = True

    def shown(self, snapshot: Snapshot) -> list[LockStatus]:
        """The locks of the table."""
        return ordered([lock for lock in snapshot.locks if self.filter in lock.name], self.order)

    def move(self, snapshot: Snapshot, by: int) -> None:
        """Choose another lock, so many lines further down."""
        names = [lock.name for lock in self.shown(snapshot)]
        if names:
            at = names.index(self.chosen) if self.chosen in names else 0
            self.chosen = names[min(max(at + by, 0), len(names) - 1)]


def least(masters: int) -> tuple[int, int]:
    """The columns and lines that a terminal must have."""
    return LEAST_COLUMNS, LEAST_LINES + masters


def draw(snapshot: Snapshot, view: View, columns: int, lines: int, now: float) -> list[Text]:
    """Exactly ``lines`` lines of at most ``columns`` columns; leases count down to ``now``, a Unix time."""
    needed = least(len(snapshot.masters))
    if columns < needed[0] or lines < needed[1]:
        told = f"too small: {columns}x{lines}, needs {needed[0]}x{needed[1]} (q quits)"
        return [Text(told[:columns])] + [Text()] * (lines - 1)
    head = _head(snapshot, view, columns, now)
    if view.help:
        body = [Text(f"  {padded(keys, 28)} {meaning}"[:columns]) for keys, meaning in HELP]
        return _filled([*head, Text(), *body], lines - 1) + [Text("any key goes back", style="dim")]
    masters = _masters(snapshot, columns, view.utf8)
    locks = view.shown(snapshot)
    names = [lock.name for lock in locks]
    chosen = next((lock for lock in locks if lock.name == view.chosen), locks[0] if locks else None)
    room = lines - len(head) - len(masters) - 4  # a blank line, the head of the table, a rule, the foot
    detail = [] if chosen is None else _detail(chosen, columns, now - snapshot.at, snapshot.at, view.utf8)
    # A third for the details, or what the table leaves over.
    detail = detail[: max(room // 3, room - max(len(locks), 1))]
    view.page = max(1, room - len(detail))
    at = names.index(chosen.name) if chosen is not None else 0
    view.top = max(min(view.top, at, len(locks) - view.page), at - view.page + 1, 0)
    rows = _locks(locks, view, columns, now - snapshot.at, snapshot.at)
    table_, body = rows[0], rows[1 + view.top : 1 + view.top + view.page]
    if chosen is not None:
        body[at - view.top].stylize("reverse")
    if not locks:
        body = [Text(_nothing(snapshot, view), style="dim")]
    above = [*head, *masters, Text(), table_, *_filled(body, view.page)]
    rule = Text(("─" if view.utf8 else "-") * columns, style="dim")
    return [*above, rule, *detail, _foot(snapshot, view, len(locks), columns)]


def everything(snapshot: Snapshot, view: View, columns: int, now: float) -> list[Text]:
    """The picture without an end, for paper and pipes."""
    locks = view.shown(snapshot)
    rows = _locks(locks, view, columns, now - snapshot.at, snapshot.at)
    return [
        *_head(snapshot, view, columns, now),
        *_masters(snapshot, columns, view.utf8),
        Text(),
        *(rows if locks else [Text(_nothing(snapshot, view))]),
    ]


def _filled(lines: Sequence[Text], count: int) -> list[Text]:
    return [*lines[:count], *[Text()] * (count - len(lines))]


# -- parts -----------------------------------------------------------------------------------------


def _head(snapshot: Snapshot, view: View, columns: int, now: float) -> list[Text]:
    held = sum(lock.locked for lock in snapshot.locks)
    waited = sum(lock.queue_length > 0 for lock in snapshot.locks)
    rate = snapshot.hand_offs_per_second
    more = "+" if snapshot.more else ""
    unknown = snapshot.answering < snapshot.quorum and not snapshot.locks
    parts = [
        ("rlock", "bold"),
        (f"{printable(view.pattern)}", ""),
        (f"{snapshot.answering}/{len(snapshot.masters)} masters answer", _well(snapshot)),
        ("? held" if unknown else f"{held}{more} held", ""),
        ("? waited for" if unknown else f"{waited}{more} waited for", ""),
        ("- hand-offs/s" if rate is None else f"{rate:.1f} hand-offs/s", ""),
    ]
    line = Text("  ").join(Text(text, style=style) for text, style in parts)
    told = [line]
    if snapshot.answering < snapshot.quorum:
        warning = (
            f"fewer than {snapshot.quorum} masters answer: nobody gets a lock, and holders are not known"
        )
        told.append(Text(warning, style="bold red"))
    unlisted = [each for each in snapshot.masters if each.unlisted is not None and each.fault is None]
    if unlisted and len(unlisted) == snapshot.answering:
        told.append(
            Text(f"no locks to be seen: {printable(unlisted[0].unlisted or '')}", style="bold yellow")
        )
    late = now - snapshot.at
    if view.paused:
        told[0].append("  paused", style="bold yellow")
    elif late > 5:
        told[0].append(f"  {seconds(late)} old", style="yellow")
    for each in told:
        each.truncate(columns)
    return told


def _well(snapshot: Snapshot) -> str:
    if snapshot.answering == len(snapshot.masters):
        return "green"
    return "yellow" if snapshot.answering >= snapshot.quorum else "bold red"


MASTERS = (
    Column("MASTER", shrinks=28),
    Column("STATE"),
    Column("LATENCY", right=True),
    Column("LOCKS", right=True),
    Column("SERVER", drop=2),
    Column("UP", right=True, drop=3),
    Column("MEMORY", right=True, drop=4),
    Column("CLIENTS", right=True, drop=6),
    Column("CMD/S", right=True, drop=5),
    Column("CLOCK", right=True, drop=1),
    Column("DISK", drop=7),
)


def _masters(snapshot: Snapshot, columns: int, utf8: bool) -> list[Text]:
    rows = []
    for each in snapshot.masters:
        if each.fault is not None:
            rows.append([Cell(each.master), Cell(each.fault, "bold red", spans=True)])
            continue
        offset = each.clock_offset
        rows.append(
            [
                Cell(each.master),
                _state(each),
                Cell("-" if each.latency is None else ms(each.latency)),
                Cell("-" if each.locks is None else str(each.locks)),
                Cell(" ".join(filter(None, (each.flavour, each.version))) or "-"),
                Cell("-" if each.uptime is None else seconds(each.uptime)),
                Cell(_memory(each), "bold red" if _full(each) else "yellow" if _full(each, 0.9) else ""),
                Cell("-" if each.clients is None else str(each.clients)),
                Cell("-" if each.commands_per_second is None else f"{each.commands_per_second:.0f}"),
                Cell(
                    "-" if offset is None else f"{offset * 1000:+.0f} ms",
                    "yellow" if offset is not None and abs(offset) > CLOCK_ALERT_S else "",
                ),
                Cell({True: "durable", False: "forgets", None: "-"}[each.durable]),
            ]
        )
    return table(MASTERS, rows, columns, utf8=utf8)


def _state(each: MasterHealth) -> Cell:
    if each.role == "replica":
        return Cell("replica", "bold red")
    if each.guarded:
        return Cell(f"guard {each.guarded:.0f} s", "yellow")
    if _full(each):
        return Cell("full", "bold red")  # it answers, and grants nothing
    return Cell("ok", "green")


def _full(each: MasterHealth, part: float = 1.0) -> bool:
    return bool(each.max_memory) and (each.memory or 0) >= part * (each.max_memory or 0)


def _memory(each: MasterHealth) -> str:
    if each.memory is None:
        return "-"
    told = size(each.memory)
    return f"{told} {100 * each.memory / each.max_memory:.0f}%" if each.max_memory else told


LOCKS = (
    Column("NAME", shrinks=20),
    Column("HOLDER", shrinks=20),
    Column("HELD FOR", right=True),
    Column("LEASE", right=True),
    Column("COUNT", right=True, drop=2),
    Column("WAITERS", right=True),
    Column("VOTES", right=True, drop=1),
    Column("NEXT", shrinks=20, drop=3),
)


def _locks(locks: Sequence[LockStatus], view: View, columns: int, elapsed: float, at: float) -> list[Text]:
    return table(LOCKS, [_row(lock, elapsed, at) for lock in locks], columns, utf8=view.utf8)


def _row(lock: LockStatus, elapsed: float, at: float) -> list[Cell]:
    holder, _ = seen(lock)
    lease = Cell("-")
    if lock.remaining is not None:
        left = max(0.0, lock.remaining - elapsed)
        lease = Cell(f"{left:.1f} s", "bold red" if left < 1 else "yellow" if left < 3 else "")
    elif lock.locked:
        lease = Cell("no expiry", "yellow")
    told = lock.waiters[0].owner if lock.waiters else None
    return [
        Cell(printable(lock.name), "bold"),
        Cell("-" if holder is None else label(holder), "" if lock.locked else "dim"),
        Cell("-" if lock.since is None else seconds(max(0.0, at + elapsed - lock.since))),
        lease,
        Cell(str(lock.hold_count or "-")),
        Cell(str(lock.queue_length or "-"), "cyan" if lock.queue_length else ""),
        Cell(votes(lock), "" if lock.locked else "yellow"),
        Cell("-" if told is None else label(told)),
    ]


def _detail(lock: LockStatus, columns: int, elapsed: float, at: float, utf8: bool) -> list[Text]:
    """What there is to say of one lock, the most important first."""
    mark = "…" if utf8 else ".."
    holder, _ = seen(lock)
    lines = [
        Text(
            cut(
                f"{printable(lock.name)}  {printable(holder or ('free' if lock.free else 'unknown'))}",
                columns,
                mark,
            ),
            style="bold",
        )
    ]
    for number, waiter in enumerate(lock.waiters, 1):
        waits = "" if waiter.since is None else f"  waits {seconds(max(0.0, at + elapsed - waiter.since))}"
        line = f"  {number}. {label(waiter.owner)}{waits}"
        lines.append(Text(cut(line, columns, mark), style="cyan"))
    for view in lock.masters:
        if view.fault is not None:
            told = printable(view.fault)
        elif view.holder is None:
            told = "no holder"
        else:
            told = f"{printable(view.holder)}  count {view.hold_count}"
        guard = "  (restart guard: no vote yet)" if view.guarded else ""
        lines.append(Text(cut(f"  {view.master}  {told}{guard}", columns, mark), style="dim"))
    return lines


def _nothing(snapshot: Snapshot, view: View) -> str:
    if snapshot.locks:
        return f"no name holds {view.filter!r}"
    if snapshot.answering < snapshot.quorum:
        # "No lock is held" would be read as "nothing to lose", and answered with `rlock init`.
        return "which locks are held is unknown"
    return "no lock is held or waited for" + (" among those that were found so far" if snapshot.more else "")


def _foot(snapshot: Snapshot, view: View, count: int, columns: int) -> Text:
    if view.typing:
        return Text(f"/{printable(view.filter)}" + ("▏" if view.utf8 else "_"))
    place = (
        f"{view.top + 1}-{min(view.top + view.page, count)} of {count}" if count > view.page else f"{count}"
    )
    filtered = f"  /{printable(view.filter)}" if view.filter else ""
    told = f"{place} locks{filtered}  sort: {view.order}"
    keys = "q quit  p pause  s sort  jk choose  / filter  ? help"
    gap = columns - width(told) - width(keys)
    return Text(cut(told, columns) if gap < 2 else told + " " * gap + keys, style="dim")
