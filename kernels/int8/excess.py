"""Weights in two parts, so that i16 holds the sums of products that `vpmaddubsw` makes.

The instruction adds two products u8 x i8 as i16, and saturates. Few weights of a layer are so large that such a sum, or
that of several groups of terms, could leave i16. What they have too much is taken away, and multiplied apart: each
panel has a list of the groups of inputs whose weights were reduced, and what was taken from them. All sums are exact,
so that those of both parts have the bits of the sum with the whole weights.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mavcg.kernels.int8.register_tile import GROUP, I16_LARGEST, U8_LARGEST, SumRun

Array: TypeAlias = NDArray[Any]

LARGEST_SUM = I16_LARGEST // U8_LARGEST  # of weights of one sign whose products with any u8 i16 can sum
# Words of a panel in the table of a layer: position of its weights, position of its places (both in bytes), its number
# of groups, and one that is not used.
HEADER_WORDS, WORD_BYTES = 4, 4
LINE_WORDS = 16


@dataclass(frozen=True)
class SplitWeights:
    """Packed weights in two parts, whose sum they are.

    kept: i8 [panels, steps, lanes, 4], of which i16 holds the sums. panels, groups: of each second part, its panel and
    its group of the sum; in the order of panels. taken: the second parts, i8 [parts, lanes, 4].
    """

    kept: Array
    panels: Array
    groups: Array
    taken: Array


def _blocks(packed: Array, run: SumRun, together: int) -> Array:
    """Return weights as i16 [panels, blocks, together, lanes, 2, 2], runs filled with zeros to whole blocks.

    packed: i8 [.., steps, lanes, 4].
    """
    *_, steps, lanes, _ = packed.shape
    runs = packed.reshape(-1, steps // run.groups, run.groups, lanes, GROUP)
    whole = -(-run.groups // together) * together
    filled = np.zeros((*runs.shape[:2], whole, lanes, GROUP), np.int16)
    filled[:, :, : run.groups] = runs
    return filled.reshape(len(runs), -1, together, lanes, 2, 2)


def _too_much(blocks: Array) -> Array:
    """Return by how much sums of positive, and of negative, weights are too large: [2, .., lanes, 2]."""
    sums = np.stack([part.clip(min=0).sum(axis=(-4, -1)) for part in (blocks, -blocks)])
    return (sums - LARGEST_SUM).clip(min=0)


def least_parts(packed: Array, run: SumRun, together: int) -> int:
    """Return the number of blocks of `together` groups whose sums i16 cannot hold: the least number of second parts.

    packed: i8 [.., steps, lanes, 4].
    """
    return int(_too_much(_blocks(packed, run, together)).any(axis=(0, -2, -1)).sum())


def split_weights(packed: Array, run: SumRun, together: int) -> SplitWeights:
    """Take away from weights what keeps i16 from holding the sums of `together` neighbouring groups of a run.

    Of each block the group gives that relieves it most, until i16 holds its sums; a group may give twice.
    packed: i8 [.., steps, lanes, 4].
    """
    blocks = _blocks(packed, run, together)
    lanes, of_run = packed.shape[-2], -(-run.groups // together)
    found: list[tuple[Array, Array, Array]] = []
    bad = np.argwhere(_too_much(blocks).any(axis=(0, -2, -1)))
    while len(bad):
        panel, block = bad.T
        weights = blocks[panel, block]  # [bad, together, lanes, 2, 2]
        over = _too_much(weights)[:, :, None]  # [2, bad, 1, lanes, 2]
        pairs = np.stack([weights.clip(min=0), (-weights).clip(min=0)])
        gives = np.minimum(np.minimum(pairs.sum(axis=-1), over), LARGEST_SUM)  # [2, bad, together, lanes, 2]
        chosen = gives.sum(axis=(0, 3, 4)).argmax(axis=1)
        rows = np.arange(len(bad))
        amount, first = gives[:, rows, chosen], pairs[..., 0][:, rows, chosen]
        left = np.minimum(first, amount)
        positive, negative = np.stack([left, amount - left], axis=-1)
        change = positive - negative
        blocks[panel, block, chosen] -= change
        group = block // of_run * run.groups + block % of_run * together + chosen
        found.append((panel, group, change.reshape(-1, lanes, GROUP).astype(np.int8)))
        bad = bad[_too_much(blocks[panel, block]).any(axis=(0, -2, -1))]
    whole = blocks.reshape(len(blocks), -1, of_run * together, lanes, GROUP)
    kept = whole[:, :, : run.groups].reshape(packed.shape).astype(np.int8)
    if not found:
        none = np.zeros(0, np.int64)
        return SplitWeights(kept, none, none, np.zeros((0, lanes, GROUP), np.int8))
    panels, groups, taken = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((groups, panels))
    return SplitWeights(kept, panels[order], groups[order], taken[order])


def excess_table(split: SplitWeights, panels: int, run: SumRun) -> Array:
    """Return the second parts as words, i32: HEADER_WORDS of each panel, then weights and places of all parts.

    A place has a number for each level of the run, and the position of the group in its run, in bytes; it holds for any
    steps of the levels. panels: of all groups of channels.
    """
    lanes, parts = split.taken.shape[1], len(split.panels)
    weights_at = -(-panels * HEADER_WORDS // LINE_WORDS) * LINE_WORDS
    places_at = weights_at + parts * lanes
    levels = [count for count, _ in run.levels]
    taps, terms = np.divmod(split.groups, run.groups)
    starts = np.array([max(0, min(n * run.group, run.length - run.group)) for n in range(run.groups)])
    numbers = [*np.unravel_index(taps, levels)] if levels else []
    places = np.stack([*numbers, starts[terms]], axis=1)
    begins = np.searchsorted(split.panels, np.arange(panels + 1))
    table = np.zeros(places_at + places.size, np.int32)
    header = table[: panels * HEADER_WORDS].reshape(panels, HEADER_WORDS)
    header[:, 0] = (weights_at + begins[:-1] * lanes) * WORD_BYTES
    header[:, 1] = (places_at + begins[:-1] * places.shape[1]) * WORD_BYTES
    header[:, 2] = np.diff(begins)
    table[weights_at:places_at] = np.ascontiguousarray(split.taken).view(np.int32).reshape(-1)
    table[places_at:] = places.reshape(-1)
    return table
