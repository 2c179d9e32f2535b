"""Shrinking of a chain that has a fault: the smallest chain found that still has it.

Each round proposes smaller chains: one operator, or some in a row, on the values that the judges have of their
arguments; one output; a node left out; lengths halved; attributes dropped; plain values. They are judged together, in
one library, and the smallest that still has the fault is taken, until none has it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bench.chains.chain import Chain, pruned, renamed
from bench.chains.verdict import FAULTS, Verdict
from bench.differential.part import Array

AT_ONCE = 24  # chains that are judged together
Judge = Callable[[Sequence[Chain]], Sequence[Verdict]]
Values = Callable[[Chain], Mapping[str, Array]]


def shrunk(chain: Chain, found: Verdict, judge: Judge, values: Values, seconds: float) -> tuple[Chain, Verdict]:
    """Return the smallest chain found with a fault of the same status, and its verdict.

    judge: gives verdicts on chains with different names. values: returns a chain's tensors by a judge, as far as known.
    """
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for proposals in (_cuts(chain, values(chain)), _simpler(chain)):
            smaller = [c for c in proposals if _size(c) < _size(chain)]
            for candidates in _groups(smaller):
                better = _smallest_with_fault(candidates, found.status, judge)
                if better is not None:
                    chain, found = better
                    progress = True
                    break
                if time.monotonic() > end:
                    break
            if progress:
                break
    return chain, found


def _groups(chains: Sequence[Chain]) -> Iterator[Sequence[Chain]]:
    ordered = sorted(chains, key=_size)
    for at in range(0, len(ordered), AT_ONCE):
        yield ordered[at : at + AT_ONCE]


def _smallest_with_fault(candidates: Sequence[Chain], status: str, judge: Judge) -> tuple[Chain, Verdict] | None:
    named = [renamed(c, f"s{i}_") for i, c in enumerate(candidates)]
    for candidate, own, verdict in zip(candidates, named, judge(named), strict=True):
        if verdict.status in FAULTS and verdict.status == status:
            return (candidate if candidate.prefix == own.prefix else own), verdict
    return None


def _size(chain: Chain) -> tuple[int, int, int, int]:
    """Return what is made smaller: nodes, elements, attributes, and elements that are not small integers."""
    arrays = [*chain.inputs.values(), *chain.constants.values()]
    elements = sum(x.size for x in arrays)
    attributes = sum(len(str(value)) for node in chain.nodes for value in node.attributes.values())
    with np.errstate(all="ignore"):
        uneven = sum(
            int(np.count_nonzero((x != np.rint(x)) | (np.abs(x) > 9))) for x in arrays if x.dtype.kind in "fiu"
        )
    return 2 * len(chain.nodes) + len(chain.outputs), elements, attributes, uneven


def _cuts(chain: Chain, values: Mapping[str, Array]) -> Iterator[Chain]:
    """Yield chains with fewer nodes or outputs."""
    for name in chain.outputs if len(chain.outputs) > 1 else ():
        yield pruned(replace(chain, outputs=(name,)))
    count = len(chain.nodes)
    for length in range(1, count):
        if length > 4 and length not in (count // 2, count - 1, count - 2):
            continue
        for first in range(count - length + 1):
            cut = _section(chain, values, first, first + length)
            if cut is not None:
                yield cut
    for at, node in enumerate(chain.nodes):  # without this node: its readers read its argument
        for source in node.inputs:
            x = values.get(source, chain.inputs.get(source))
            y = values.get(node.outputs[0])
            if x is not None and y is not None and x.shape == y.shape and x.dtype == y.dtype:
                yield _without(chain, at, source)
    for at in range(count):  # this node's result as an input
        node = chain.nodes[at]
        if all(name in values for name in node.outputs if name) and not set(node.outputs) & set(chain.outputs):
            rest = chain.nodes[:at] + chain.nodes[at + 1 :]
            more = {name: values[name] for name in node.outputs if name}
            yield pruned(replace(chain, nodes=rest, inputs={**chain.inputs, **more}))


def _section(chain: Chain, values: Mapping[str, Array], first: int, end: int) -> Chain | None:
    """Return the nodes from `first` to `end` as a chain, on the values of their arguments."""
    nodes = chain.nodes[first:end]
    made = {name for node in nodes for name in node.outputs if name}
    needed = {name for node in nodes for name in node.inputs if name and name not in chain.constants} - made
    if not all(name in values or name in chain.inputs for name in needed):
        return None
    inputs = {name: chain.inputs[name] if name in chain.inputs else values[name] for name in sorted(needed)}
    read = {name for node in nodes for name in node.inputs}
    read_later = {name for node in chain.nodes[end:] for name in node.inputs} | set(chain.outputs)
    outputs = tuple(
        name for node in nodes for name in node.outputs if name and (name not in read or name in read_later)
    )
    return pruned(replace(chain, nodes=nodes, inputs=inputs, outputs=outputs))


def _without(chain: Chain, at: int, source: str) -> Chain:
    gone = chain.nodes[at].outputs[0]

    def of(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(source if name == gone else name for name in names)

    nodes = tuple(replace(n, inputs=of(n.inputs)) for i, n in enumerate(chain.nodes) if i != at)
    outputs = tuple(name for name in chain.outputs if name != gone)
    if source not in chain.inputs and source not in chain.constants and len(outputs) < len(chain.outputs):
        outputs = (*outputs, source)
    return pruned(replace(chain, nodes=nodes, outputs=outputs)) if outputs else chain


def _simpler(chain: Chain) -> Iterator[Chain]:
    """Yield chains of the same nodes with smaller arrays, fewer attributes, plainer values."""
    lengths = sorted({n for x in (*chain.inputs.values(), *chain.constants.values()) for n in x.shape if n > 1})
    for length in lengths:
        for smaller in dict.fromkeys((1, 2, length // 2, length - 1)):
            if smaller < length:
                yield _with_length(chain, length, smaller)
    for name, x in chain.inputs.items():
        for smaller_x in _smaller(x):
            yield replace(chain, inputs={**chain.inputs, name: smaller_x})
    for name, x in chain.constants.items():
        for smaller_x in _smaller(x):
            yield replace(chain, constants={**chain.constants, name: smaller_x})
    for at, node in enumerate(chain.nodes):
        for name in node.attributes:
            rest = {k: v for k, v in node.attributes.items() if k != name}
            nodes = (*chain.nodes[:at], replace(node, attributes=rest), *chain.nodes[at + 1 :])
            yield replace(chain, nodes=nodes)


def _smaller(x: Array) -> Iterator[Array]:
    """Yield an array with one shorter axis, or with plainer values."""
    for axis, length in enumerate(x.shape):
        for smaller in dict.fromkeys((1, length // 2, length - 1)):
            if 0 < smaller < length:
                yield np.take(x, np.arange(smaller), axis)
    if x.dtype.kind == "f" and x.size:
        with np.errstate(all="ignore"):
            # No number becomes 0: a scale of 0 is a fault of another kind.
            plain = (np.where(np.rint(x) == 0, x, np.rint(x)), np.ones_like(x), np.where(np.isfinite(x), 1, x))
        for value in plain:
            if not np.array_equal(value, x, equal_nan=True):
                yield np.asarray(value, x.dtype)


def _with_length(chain: Chain, length: int, smaller: int) -> Chain:
    """Return a chain in which every axis of this length has a smaller one; in vectors of integers the number too."""

    def cut(x: Array) -> Array:
        for axis, n in enumerate(x.shape):
            if n == length:
                x = np.take(x, np.arange(smaller), axis)
        if x.dtype == np.int64 and x.ndim == 1:
            x = np.where(x == length, smaller, x)
        return x

    inputs, constants = ({name: cut(x) for name, x in arrays.items()} for arrays in (chain.inputs, chain.constants))
    return replace(chain, inputs=inputs, constants=constants)
