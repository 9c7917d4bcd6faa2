"""The drawings of waiting, made of the tables in `rlock/rules/waiting.py`: stages, moves, one acquire."""

from __future__ import annotations

import ast
import enum
import inspect
import io
import textwrap
import tokenize

from site_svg import AMBER, BLUE, GREEN, RED, Picture

from rlock.model import Verdict
from rlock.rules.waiting import MOVES, STAGES, Move, Stage, Step

#: The moves that end an acquire, with the result that its caller gets.
ENDS = {Move.FAIL: "OptionsError", Move.STOP: "settle; then False or\nQuorumUnreachableError"}
COLOURS = {Move.FAIL: RED, Move.STOP: AMBER}


def meanings(kind: type[enum.Enum]) -> dict[str, str]:
    """The comment behind each member of an enum, by the member's name."""
    source = inspect.getsource(kind)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (body,) = (node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {
        node.targets[0].id: comments[node.lineno]
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def stages() -> Picture:
    """The stages of a contender, and the steps between them."""
    arrows: dict[tuple[Stage, Stage], list[Step]] = {}
    for (before, step), after in STAGES.items():
        arrows.setdefault((before, after), []).append(step)
    new, subscribing, joining, waiting, holding = Stage
    at = {new: 95, subscribing: 340, joining: 585, waiting: 830}
    paths = {
        (new, new): ("M140 108C165 60 200 60 168 106", 195, 68, "start"),
        (new, subscribing): ("M180 145H253", 217, 137, "middle"),
        (subscribing, joining): ("M425 145H498", 462, 137, "middle"),
        (joining, waiting): ("M670 145H743", 707, 137, "middle"),
        (subscribing, new): ("M340 108V38H80V106", 348, 98, "start"),
        (joining, new): ("M585 108V38H80V106", 593, 98, "start"),
        (waiting, new): ("M830 108V38H80V106", 838, 98, "start"),
        (new, holding): ("M120 182V238", 128, 214, "start"),
        (subscribing, holding): ("M340 182V238", 348, 214, "start"),
        (joining, holding): ("M585 182V238", 593, 214, "start"),
        (waiting, holding): ("M830 182V238", 838, 214, "start"),
        (holding, new): ("M40 240V184", 48, 214, "start"),
    }
    assert paths.keys() == arrows.keys(), "STAGES has other arrows than the drawing has places for"
    words = meanings(Stage)
    drawn = Picture("stages", 930, 305, "The stages of a contender")
    for stage, x in at.items():
        drawn.box(x - 85, 108, 170, 74, fill=BLUE)
        drawn.text(x, 129, stage.value, size=16)
        drawn.text(x, 148, textwrap.fill(words[stage.name], 27), size=11)
    drawn.box(10, 240, 905, 50, fill=GREEN)
    drawn.text(462, 262, holding.value, size=16)
    drawn.text(462, 280, words[holding.name], size=11)
    for pair, (path, x, y, anchor) in paths.items():
        drawn.line(path)
        drawn.text(x, y, ", ".join(step.value for step in arrows[pair]), anchor=anchor, size=12)
    return drawn


def moves() -> Picture:
    """The table of waits: the first condition that holds decides."""
    height = 74
    drawn = Picture("moves", 900, 70 + height * len(MOVES), "The moves of a contender after a lost round")
    drawn.box(120, 8, 250, 34, fill=BLUE)
    drawn.text(245, 30, "a round was lost", size=14)
    drawn.line("M245 42V58")
    for number, row in enumerate(MOVES):
        y = 60 + height * number
        drawn.box(10, y, 470, 52, fill=BLUE, opacity=0.08)
        lines = textwrap.wrap(row.when, 62)
        drawn.text(245, y + (31 if len(lines) == 1 else 22), "\n".join(lines), size=14)
        drawn.line(f"M480 {y + 26}H538")
        drawn.box(540, y, 350, 52, fill=COLOURS.get(row.move, GREEN), opacity=0.22)
        value = textwrap.wrap(row.move.value, 62)
        drawn.text(715, y + (22 if len(value) == 1 else 17), row.move.name, size=14)
        drawn.text(715, y + (39 if len(value) == 1 else 32), "\n".join(value), size=11)
        if number < len(MOVES) - 1:
            drawn.text(509, y + 20, "yes", size=12)
            drawn.line(f"M245 {y + 52}V{y + height - 2}")
            drawn.text(253, y + 67, "no", anchor="start", size=12)
    return drawn


def acquire() -> Picture:
    """The way of one acquire: rounds and moves by turns, until it ends."""
    drawn = Picture("acquire", 800, 650, "The way of an acquire")
    drawn.box(300, 8, 200, 34, fill=BLUE)
    drawn.text(400, 30, "acquire()")
    drawn.line("M400 42V60")
    drawn.box(220, 62, 360, 44, fill=BLUE)
    drawn.text(400, 80, "local queue: in default mode one owner\nof this process asks for this lock", size=13)
    drawn.line("M400 106V134")
    drawn.box(220, 136, 360, 44, fill=BLUE)
    drawn.text(400, 154, "attempt: note the instant,\nthen ask all masters at once", size=13)
    drawn.line("M400 180V210", arrow=False)
    drawn.text(410, 200, "decided by the q-th answer that settles it", anchor="start", size=12)
    places = {
        Verdict.WON: (5, GREEN, "a quorum granted it,\nin time"),
        Verdict.HELD: (160, BLUE, "a quorum named\none other owner"),
        Verdict.SPLIT: (315, BLUE, "nobody was seen\nwith a quorum"),
        Verdict.UNREACHABLE: (470, RED, "fewer than a quorum\nmay vote"),
        Verdict.TOO_LATE: (625, AMBER, "no validity left when\nit was decided"),
    }
    assert {*places} == {*Verdict}, "there are other verdicts than the drawing has places for"
    drawn.line("M76 210H696", arrow=False)
    for verdict, (x, colour, words) in places.items():
        drawn.line(f"M{x + 71} 210V232")
        drawn.box(x, 234, 142, 70, fill=colour, opacity=0.25)
        drawn.text(x + 71, 256, verdict.value, size=16)
        drawn.text(x + 71, 276, words, size=12)
        if verdict is not Verdict.WON:
            drawn.line(f"M{x + 71} 304V328", arrow=False)
    drawn.line("M76 304V598")
    drawn.text(84, 340, "agree on the\nfencing token,\nlook at the clock", anchor="start", size=12)
    drawn.box(5, 600, 142, 44, fill=GREEN, opacity=0.35)
    drawn.text(76, 627, "True: it is held")
    drawn.line("M231 328H696", arrow=False)
    drawn.line("M463 328V344")
    drawn.box(250, 346, 426, 44, fill=BLUE)
    drawn.text(463, 364, "undo the round on all masters that may have granted it;\nthe ticket stays", size=13)
    drawn.line("M463 390V414")
    drawn.box(250, 416, 426, 36, fill=BLUE)
    drawn.text(463, 439, "next_move: the first row of MOVES that holds")
    drawn.line("M463 452V470", arrow=False)
    drawn.line("M240 470H650", arrow=False)
    for (move, result), x in zip(ENDS.items(), (175, 335), strict=True):
        drawn.line(f"M{x + 65} 470V488")
        drawn.box(x, 490, 130, 40, fill=COLOURS[move], opacity=0.25)
        drawn.text(x + 65, 515, move.name, size=14)
        drawn.line(f"M{x + 65} 530V550")
        drawn.text(x + 65, 565, result, size=12)
    others = [move.name for move in Move if move not in ENDS]
    drawn.line("M650 470V488")
    drawn.box(520, 490, 260, 56, fill=GREEN, opacity=0.22)
    drawn.text(650, 514, textwrap.fill(", ".join(others), 34), size=13)
    drawn.line("M780 518H793V158H582")
    drawn.text(790, 132, "a hand-off, an expired key, a poll,\nor the pause is over", anchor="end", size=12)
    drawn.line("M650 546V622H149", dashed=True)
    drawn.text(400, 613, "the messages of a quorum are the grant", size=12)
    return drawn
