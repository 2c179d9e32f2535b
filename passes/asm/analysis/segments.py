"""Divides a block into segments, the instructions between two fences, which may be reordered.

A fence is an unknown instruction, a call, a branch, or a directive that is part of the code (a frame's description,
data). The edges of inline assembly and empty inline assembly are fences too: a program may use either to keep its
compiler from moving memory accesses. Inline assembly of comments only is no fence. Where the caller knows that no
inline assembly clobbers memory (`open_inline`), its instructions are like any others.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.analysis.blocks import Block, is_code_directive
from mavcg.passes.asm.isa.source import Statement

_BEGIN = re.compile(r"\s*(?://|#)\s*APP\s*$")
_LINE_MARK = re.compile(r'\s*(?://|#)\s*\d+\s+"[^"]*"(?:\s+\d+)*\s*$')  # GCC puts these around inline assembly
_END = re.compile(r"\s*(?://|#)\s*NO_APP\s*$")


@dataclass(frozen=True)
class Segment:
    """Lines [first, stop) of a block: known instructions without a fence between them."""

    first: int
    stop: int


# Maximum number of instructions in a segment. Scheduling time grows with the square of the length, and reordering
# across greater distances gains nothing.
LONGEST = 256


def segments_of(block: Block, statements: Sequence[Statement], open_inline: bool = False) -> tuple[Segment, ...]:
    """Return the block's segments, in order, each of at most LONGEST lines; its closing branch is in none of them."""
    segments: list[Segment] = []
    first: int | None = None
    for at, line in enumerate(block.lines):
        effect = line.effects
        reorderable = effect is not None and not effect.flow
        if first is not None and (
            not reorderable
            or at - first == LONGEST
            or _has_fence_between(statements, block.lines[at - 1].statement, line.statement, open_inline)
        ):
            segments.append(Segment(first, at))
            first = None
        if reorderable and first is None:
            first = at
    if first is not None:
        segments.append(Segment(first, len(block.lines)))
    return tuple(segments)


def is_fence_free(block: Block, statements: Sequence[Statement], open_inline: bool = False) -> bool:
    """True if a block, its closing branch included, has no fence, and none stands between two of its iterations."""
    indices = [line.statement for line in block.lines]
    if any(line.is_fence for line in block.lines):
        return False
    if any(_has_fence_between(statements, a, b, open_inline) for a, b in zip(indices, indices[1:], strict=False)):
        return False
    if not indices or open_inline:
        return True
    labels = [at for at in range(block.start, indices[0]) if statements[at].kind == "label"]
    top = max(labels, default=block.start - 1)
    return not _is_fence(statements[top + 1 : indices[0]])


def _has_fence_between(statements: Sequence[Statement], before: int, after: int, open_inline: bool) -> bool:
    """True if a fence stands between two successive instructions."""
    inside = statements[before + 1 : after]
    if any(s.kind == "macro" or is_code_directive(s) for s in inside):
        return True
    if open_inline:
        return False
    if statements[before].inline != statements[after].inline:
        return True
    return _is_fence(inside)


def _is_fence(inside: Sequence[Statement]) -> bool:
    """True if these statements hold an edge of inline assembly with instructions, or empty inline assembly."""
    begun, words = False, False
    for s in inside:
        text = s.text.rstrip("\n")
        if _BEGIN.match(text):
            begun, words = True, False
        elif _END.match(text):
            if not begun or not words:  # the end of one with instructions, or of an empty one
                return True
            begun = False
        elif text.strip() and not _LINE_MARK.match(text):
            words = True
    return begun
