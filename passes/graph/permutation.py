"""Permutations of dimensions, as transpose takes them: dimension i of the result is dimension perm[i] of its input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Perm = tuple[int, ...]
T = TypeVar("T")


def identity(rank: int) -> Perm:
    """Return the identity permutation."""
    return tuple(range(rank))


def compose(first: Perm, second: Perm) -> Perm:
    """Return the permutation of a transpose that equals transpose by `first`, then by `second`."""
    return tuple(first[i] for i in second)


def inverse(perm: Perm) -> Perm:
    """Return the inverse permutation."""
    return tuple(perm.index(i) for i in range(len(perm)))


def scatter(values: Sequence[T], perm: Perm) -> tuple[T, ...]:
    """Permute values, one per dimension of transpose(x, perm), into the order of x's dimensions."""
    return tuple(values[i] for i in inverse(perm))


def moves(shape: Sequence[int], perm: Perm) -> bool:
    """True if transposing a tensor of this shape moves elements: moving dimensions of length 1 does not."""
    long = [i for i in perm if shape[i] != 1]
    return long != sorted(long)


@dataclass(frozen=True)
class Group:
    """Adjacent dimensions that a reshape splits and merges independently of the others; none has length 1.

    before: dimensions of the reshape's input, after: of its result; both in ascending order.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]


def reshape_groups(before: Sequence[int], after: Sequence[int]) -> tuple[Group, ...]:
    """Divide a reshape's dimensions into the smallest groups with equal products of lengths, none of which is 0."""
    left = [i for i, n in enumerate(before) if n != 1]
    right = [i for i, n in enumerate(after) if n != 1]
    groups = []
    while left and right:
        ins, outs = [left.pop(0)], [right.pop(0)]
        a, b = before[ins[0]], after[outs[0]]
        while a != b:
            if a < b:
                ins.append(left.pop(0))
                a *= before[ins[-1]]
            else:
                outs.append(right.pop(0))
                b *= after[outs[-1]]
        groups.append(Group(tuple(ins), tuple(outs)))
    return tuple(groups)


def after_groups(groups: Sequence[Group], after: Sequence[int]) -> Perm:
    """Return the dimensions of a reshape's result in the order of the given groups.

    A dimension of length 1 stays behind the dimension that precedes it in the result, so that groups in their original
    order give the identity.
    """
    tails: dict[int, list[int]] = {}
    last = -1
    for i, length in enumerate(after):
        if length != 1:
            last = i
        else:
            tails.setdefault(last, []).append(i)
    order = tails.get(-1, [])
    for group in groups:
        for i in group.after:
            order = [*order, i, *tails.get(i, [])]
    return tuple(order)
