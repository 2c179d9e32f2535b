"""Stretches of a block within which instructions may be put into another order: between fences.

A fence is an instruction that is not known, a call, a branch, and a directive that belongs to its place (a frame's
description, data). So are the edges of inline assembly, and inline assembly without a word in it: either may be how a
program tells its compiler not to move memory accesses. Inline assembly of comments only is none. Where the caller knows
that no inline assembly clobbers memory (`open_inline`), its instructions are like any others.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.blocks import Block, stands_in_code
from mavcg.passes.asm.source import Statement

_BEGIN = re.compile(r"\s*(?://|#)\s*APP\s*$")
_LINE_MARK = re.compile(r'\s*(?://|#)\s*\d+\s+"[^"]*"(?:\s+\d+)*\s*$')  # GCC puts these around what was asked for
_END = re.compile(r"\s*(?://|#)\s*NO_APP\s*$")


@dataclass(frozen=True)
class Segment:
    """Lines [first, stop) of a block: known instructions that no fence parts."""

    first: int
    stop: int


# Instructions of the longest stretch: what lies further apart than that gains nothing from one another, and the time to
# order a stretch grows with the square of its length.
LONGEST = 256


def segments_of(block: Block, statements: Sequence[Statement], open_inline: bool = False) -> tuple[Segment, ...]:
    """The block's stretches, in order, each of at most LONGEST lines; its closing branch is in none of them."""
    found: list[Segment] = []
    first: int | None = None
    for at, line in enumerate(block.lines):
        effect = line.effects
        movable = effect is not None and not effect.flow
        if first is not None and (
            not movable
            or at - first == LONGEST
            or _parted(statements, block.lines[at - 1].statement, line.statement, open_inline)
        ):
            found.append(Segment(first, at))
            first = None
        if movable and first is None:
            first = at
    if first is not None:
        found.append(Segment(first, len(block.lines)))
    return tuple(found)


def is_one_piece(block: Block, statements: Sequence[Statement], open_inline: bool = False) -> bool:
    """Whether no fence parts the block, its closing branch included, nor one round of it from the next."""
    places = [line.statement for line in block.lines]
    if any(line.is_fence for line in block.lines):
        return False
    if any(_parted(statements, a, b, open_inline) for a, b in zip(places, places[1:], strict=False)):
        return False
    labels = [at for at in range(block.start, block.stop) if statements[at].kind == "label"]
    top = max(labels, default=block.start - 1)
    return not places or open_inline or not _is_fence(statements[top + 1 : places[0]])


def _parted(statements: Sequence[Statement], before: int, after: int, open_inline: bool) -> bool:
    """Whether a fence stands between two instructions that follow one another."""
    inside = statements[before + 1 : after]
    if any(s.kind == "macro" or stands_in_code(s) for s in inside):
        return True
    if open_inline:
        return False
    if statements[before].inline != statements[after].inline:
        return True
    return _is_fence(inside)


def _is_fence(inside: Sequence[Statement]) -> bool:
    """Whether an edge of inline assembly with instructions is among these, or inline assembly without a word in it."""
    begun, words = False, False
    for s in inside:
        text = s.text.rstrip("\n")
        if _BEGIN.match(text):
            begun, words = True, False
        elif _END.match(text):
            if not begun or not words:  # the end of one with instructions, or one without a word
                return True
            begun = False
        elif text.strip() and not _LINE_MARK.match(text):
            words = True
    return begun
